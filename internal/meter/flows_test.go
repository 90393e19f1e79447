package meter

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// allFlows returns every flow that has an entry.
func allFlows(c ProtocolCounts) []FlowRate {
	return TopFlows(Interval[ProtocolCounts]{Now: c}, 1<<20)
}

// exactFlows returns the packets of all flows. It fails unless each flow had an entry for all of
// its packets, with this verdict.
func exactFlows(t *testing.T, c ProtocolCounts, verdict xdp.Verdict) map[Flow]Tally {
	t.Helper()
	if c.Overflow != (FlowOverflow{}) {
		t.Fatalf("%+v", c.Overflow)
	}
	flows := make(map[Flow]Tally)
	for _, f := range allFlows(c) {
		if f.Verdict != verdict || f.Error != (Tally{}) {
			t.Fatalf("%+v, want verdict %v", f, verdict)
		}
		addTo(flows, f.Flow, Tally{f.Packets, f.Bytes})
	}
	return flows
}

// checkFlows compares the tables of flows with the truth. Each flow had at least the counted
// packets and at most the error in addition; a flow in no table had at most Overflow.Most; counted
// and evicted packets together are all packets.
func checkFlows(t *testing.T, c ProtocolCounts, truth map[Flow]Tally) {
	t.Helper()
	sum, all := c.Overflow.Tally, Tally{}
	found := make(map[Flow]bool)
	for _, f := range allFlows(c) {
		sent, ok := truth[f.Flow]
		if !ok || found[f.Flow] {
			t.Errorf("%+v was not sent, or is there twice", f)
		}
		found[f.Flow] = true
		if sent.Packets < f.Packets || sent.Packets > f.Packets+f.Error.Packets || sent.Bytes < f.Bytes || sent.Bytes > f.Bytes+f.Error.Bytes {
			t.Errorf("%+v: %+v were sent", f, sent)
		}
		sum.Add(Tally{f.Packets, f.Bytes})
	}
	for f, sent := range truth {
		if !found[f] && (sent.Packets > c.Overflow.Most.Packets || sent.Bytes > c.Overflow.Most.Bytes) {
			t.Errorf("%v with %v has no entry; most is %v", f, sent, c.Overflow.Most)
		}
		all.Add(sent)
	}
	if sum != all {
		t.Errorf("%v in entries and evicted, %v sent", sum, all)
	}
}

// A flowSender sends packets of flows with different source addresses, and records them. It sends
// on a thread from thread.Quiet, whose CPU counts the packets.
type flowSender struct {
	*countBench
	frame []byte
	truth map[Flow]Tally
}

func (s *flowSender) send(flow uint32, size int) {
	frame := s.frame[:size]
	binary.BigEndian.PutUint32(frame[14+12:], flow)
	if verdict, err := s.prog.Run(&ebpf.RunOptions{Data: frame, Repeat: 1}); err != nil || xdp.Verdict(verdict) != s.verdict {
		s.t.Errorf("verdict %v, %v", xdp.Verdict(verdict), err)
	}
	f := Flow{IPv4(17), netip.AddrPortFrom(netip.AddrFrom4([4]byte(frame[14+12:])), 9999), addr4(9999, 2)}
	addTo(s.truth, f, Tally{1, uint64(size)})
}

// numberOf is the number by which a flow was sent.
func numberOf(f Flow) uint32 {
	addr := f.Source.Addr().As4()
	return binary.BigEndian.Uint32(addr[:])
}

// The tables tell the truth about each flow, however many flows there are, in any order and size of
// packets, and however many readers watch.
func TestFlowBounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, 1<<16)
	size := func() int { return []int{60, 60, 576, 1500}[random.IntN(4)] }
	const packets = 10_000
	cpus := min(ebpf.MustPossibleCPU(), 2)
	for _, test := range []struct {
		name    string
		buckets int
		sent    bool
		send    func(s *flowSender, i uint32)
		hot     []uint32 // flows that must have an entry
	}{
		{"a few flows with most of the traffic", 64, false, func(s *flowSender, i uint32) {
			s.send(uint32(zipf.Uint64()), size())
		}, []uint32{0, 1, 2}},
		{"sent", 64, true, func(s *flowSender, i uint32) { s.send(uint32(zipf.Uint64()), size()) }, []uint32{0, 1, 2}},
		{"every packet a new flow", 16, false, func(s *flowSender, i uint32) { s.send(1000+i, size()) }, nil},
		{"a flow among new ones", 2, false, func(s *flowSender, i uint32) {
			s.send(1000+i, 60)
			if i%4 == 0 {
				s.send(7, 100)
			}
		}, []uint32{7}},
		{"small packets of a flow among large ones", 1, false, func(s *flowSender, i uint32) {
			s.send(1000+i, 1500)
			for n := 0; n < 4 && i%5000 > 100; n++ { // a little more than an eighth of the bytes
				s.send(7, 60)
			}
		}, []uint32{7}},
		// The flows, one more than the table has entries, take turns: each loses its entry just
		// before it comes again.
		{"in turn", 2, false, func(s *flowSender, i uint32) { s.send(i%17, 60) }, nil},
		// Flows have many small packets or few large ones, so that the flow with the fewest bytes
		// is not the one with the fewest packets.
		{"packets against bytes", 2, false, func(s *flowSender, i uint32) {
			if i%2 == 0 {
				s.send(random.Uint32N(40), 1500)
			} else {
				flow := 100 + random.Uint32N(40)
				for range random.Uint32N(9) { // each by itself: for more at once the kernel takes 10 ms
					s.send(flow, 60)
				}
			}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newCountBench(t, ProtocolsOptions{Flows: true, flowBuckets: max(test.buckets, 2/cpus), Sent: test.sent})
			s := &flowSender{b, testnet.UDPFrame(1500, 0), make(map[Flow]Tally)}
			n := uint32(testnet.Volume(packets))
			for cpu := range cpus {
				onCPU(t, cpu, func() error {
					for i := range n / uint32(cpus) {
						test.send(s, n*uint32(cpu)+i)
					}
					return nil
				})
				checkFlows(t, b.counts(), s.truth)
			}
			largest := TopFlows(Interval[ProtocolCounts]{Now: b.counts()}, 8)
			for _, hot := range test.hot {
				if !slices.ContainsFunc(largest, func(f FlowRate) bool { return numberOf(f.Flow) == hot }) {
					t.Errorf("flow %d is not among the largest", hot)
				}
			}
		})
	}
}

// A flow that ended long ago does not keep its entry for ever: its traffic is halved now and then,
// until a newer flow gets the entry.
func TestFlowTraffic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		old  uint64 // how many halvings ago the first flows were
		kept bool
	}{{0, false}, {40, true}} {
		b := newCountBench(t, ProtocolsOptions{Flows: true, flowBuckets: 2})
		s := &flowSender{b, testnet.UDPFrame(1500, 0), make(map[Flow]Tally)}
		today := uint32(1 << 20)
		onCPU(t, 0, func() error {
			for i := range uint32(200) {
				s.send(i, 60)
			}
			for i := range 2 {
				bucket := (*protocolsFlowBucket)(unsafe.Pointer(&b.flows.mem[i*bucketSize]))
				bucket.Halved -= test.old
				for k := range bucket.Traffic {
					bucket.Traffic[k] = uint64(k+1) << 30
				}
			}
			for i := range uint32(20) {
				s.send(today, 60)
				s.send(today+1+i, 60)
				s.send(today+100+i, 60)
			}
			return nil
		})
		c := b.counts()
		checkFlows(t, c, s.truth)
		kept := slices.ContainsFunc(allFlows(c), func(f FlowRate) bool { return numberOf(f.Flow) == today && f.Packets == 20 })
		if kept != test.kept {
			t.Errorf("%d halvings later: the flow has kept its entry: %v, want %v", test.old, kept, test.kept)
		}
	}
}

// Many more flows than the tables have entries come in while a reader reads all the time: every
// reading is true of the packets until then, and the last one is exact.
func TestFlowOverflow(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := openProtocols(t, pair, ProtocolsOptions{Flows: true, flowBuckets: 64})
	const flows, size = 3000, 100
	frames := flows * volume(300)
	most := frames / flows // of a flow
	check := func(c ProtocolCounts) (sum Tally) {
		sum = c.Overflow.Tally
		for _, f := range allFlows(c) {
			sum.Add(Tally{f.Packets, f.Bytes})
			if f.Flow.Class != IPv4(17) || f.Verdict != NoVerdict || f.Packets > most || f.Bytes > size*most || f.Bytes%size != 0 {
				t.Errorf("%+v, and at most %d packets were sent", f, most)
			}
		}
		return sum
	}
	stop := readMeanwhile(t, func() (uint64, error) {
		c, err := p.Read()
		return check(c).Packets, err
	})
	_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: frames, Flows: flows})
	stop()
	c := read(t, pair, p.Read)
	for _, f := range allFlows(c) {
		if f.Bytes != size*f.Packets {
			t.Errorf("%+v, and each packet has %d bytes", f, size)
		}
	}
	if want := (Tally{delivered, delivered * size}); check(c) != want || c.Total() != want || c.Overflow.Flows == 0 {
		t.Errorf("%v in entries and evicted, %v in all, want %v; %d evicted flows", check(c), c.Total(), want, c.Overflow.Flows)
	}
}
