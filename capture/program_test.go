package capture

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A bench is the sampling program of one source with its rings, not attached to anything.
type bench struct {
	t       *testing.T
	sampler *sampler
	rings   []*ring
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	testnet.RequireRoot(t)
	o.Interfaces = []string{"lo"}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	k, err := newSampler(make([]xdp.Interface, 2), o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, sampler: k}
	t.Cleanup(func() {
		k.close()
		for _, r := range b.rings {
			r.close()
		}
	})
	for cpu := range k.cpus() {
		r, err := openRing(cpu, o.Buffer, o.Buffer/2, 2)
		if err != nil {
			t.Fatal(err)
		}
		b.rings = append(b.rings, r)
		if err := k.setRing(cpu, r.fd); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run gives the packet to the program of a source, so many times, and returns the verdict.
func (b *bench) run(source int, packet []byte, repeat uint32) xdp.Verdict {
	b.t.Helper()
	verdict, err := b.sampler.sources[source].prog.Run(&ebpf.RunOptions{Data: packet, Repeat: repeat})
	if err != nil {
		b.t.Fatal(err)
	}
	return xdp.Verdict(verdict)
}

// samples takes everything out of the rings.
func (b *bench) samples() (samples []samplerSample, packets [][]byte) {
	b.t.Helper()
	for _, r := range b.rings {
		r.refill()
		for {
			found := r.advance()
			if found == nothing {
				break
			}
			if found == invalid {
				b.t.Error("an invalid record")
				continue
			}
			samples = append(samples, r.rec)
			packets = append(packets, append([]byte(nil), r.packet...))
		}
		r.release()
	}
	return samples, packets
}

func (b *bench) accounts() []samplerAccount {
	b.t.Helper()
	a, err := b.sampler.accounts()
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// seen is how often the program of a source ran where it was to run n times: a signal ends BPF_PROG_RUN early, and
// [ebpf.Program.Run] then starts over.
func (b *bench) seen(source int, n uint64) uint64 {
	b.t.Helper()
	seen := b.accounts()[source].Seen
	if seen < n || seen > n+n/2 {
		b.t.Errorf("the program ran %d times, want %d and few more", seen, n)
	}
	return seen
}

var ignoreLayout = cmpopts.IgnoreFields(samplerAccount{}, "_")

// A packet in; a verdict, a record and exactly these counters out.
func TestProgram(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		size    int
		length  int
		verdict xdp.Verdict
	}{
		{"shortest", Options{}, 14, 14, xdp.Pass},
		{"ordinary", Options{}, 64, 64, xdp.Pass},
		{"full", Options{}, 1514, 1514, xdp.Pass},
		{"jumbo", Options{}, 9014, 9014, xdp.Pass},
		{"snaplen", Options{SnapLen: 96}, 1514, 96, xdp.Pass},
		{"snaplen of a jumbo", Options{SnapLen: 128}, 9014, 128, xdp.Pass},
		{"snaplen is the length", Options{SnapLen: 64}, 64, 64, xdp.Pass},
		{"snaplen is one", Options{SnapLen: 1}, 64, 1, xdp.Pass},
		{"sink", Options{Sink: true}, 64, 64, xdp.Drop},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, test.options)
			packet := packetOf(test.size, 3)
			before, err := gettime(1)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.run(1, packet, 1); got != test.verdict {
				t.Errorf("verdict %v, want %v", got, test.verdict)
			}
			after, _ := gettime(1)
			samples, packets := b.samples()
			if len(samples) != 1 {
				t.Fatalf("%d records", len(samples))
			}
			s := samples[0]
			if s.TimeNs < uint64(before) || s.TimeNs > uint64(after) {
				t.Errorf("stamp %d, run between %d and %d", s.TimeNs, before, after)
			}
			if s.PacketId&(1<<48-1) != 1 || s.PacketId>>48 >= uint64(len(b.rings)) {
				t.Errorf("packet id %x", s.PacketId)
			}
			if int(s.WireLen) != test.size || s.Source != 1 || s.Ifindex == 0 {
				t.Errorf("record %+v", s)
			}
			if diff := cmp.Diff(packet[:test.length], packets[0]); diff != "" {
				t.Error(diff)
			}
			want := []samplerAccount{{}, {Seen: 1, Sampled: 1}}
			if diff := cmp.Diff(want, b.accounts(), ignoreLayout); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The longest record that MAX_SAMPLE_SIZE allows gets through: one byte more vanishes without any error,
// as the comment in sampler.c says.
func TestProgramLongestRecord(t *testing.T) {
	b := newBench(t, Options{})
	// BPF_PROG_RUN takes packets of up to 17 fragments, about as much.
	packet := packetOf(MaxSnapLen, 5)
	b.run(0, packet, 1)
	samples, packets := b.samples()
	if len(samples) != 1 || len(packets[0]) != MaxSnapLen {
		t.Errorf("%d records of a packet with %d bytes", len(samples), MaxSnapLen)
	}
}

// Packets that find the ring full are lost, and counted by the program; the next record says how many.
func TestProgramLost(t *testing.T) {
	b := newBench(t, Options{Buffer: MinBuffer})
	const frames = 10_000
	b.run(0, packetOf(64, 0), frames)
	samples, _ := b.samples()
	lost := b.seen(0, frames) - uint64(len(samples))
	want := []samplerAccount{{Seen: b.seen(0, frames), Sampled: uint64(len(samples)), Lost: lost}, {}}
	if diff := cmp.Diff(want, b.accounts(), ignoreLayout); diff != "" || lost == 0 {
		t.Errorf("%d lost\n%s", lost, diff)
	}
}

func TestProgramSample(t *testing.T) {
	for _, n := range []uint32{2, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBench(t, Options{Sample: n})
			const frames = 200_000
			for range 20 { // in portions that fit into the ring
				b.run(0, packetOf(64, 0), frames/20)
				b.samples()
			}
			a := b.accounts()[0]
			want := float64(b.seen(0, frames)) / float64(n)
			if got := float64(a.Sampled); got < want*0.7 || got > want*1.3 || a.Seen != a.Sampled+a.NotSampled {
				t.Errorf("%+v, want %v sampled", a, want)
			}
		})
	}
}

// The queue and the interface are those that the kernel gives.
func TestProgramContext(t *testing.T) {
	b := newBench(t, Options{})
	packet := packetOf(64, 0)
	// struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
	ctx := make([]byte, 24)
	binary.LittleEndian.PutUint32(ctx[4:], uint32(len(packet)))
	binary.LittleEndian.PutUint32(ctx[12:], 1) // lo has one queue, 0
	if _, err := b.sampler.sources[0].prog.Run(&ebpf.RunOptions{Data: packet, Context: ctx, Repeat: 1}); err != nil {
		t.Skipf("this kernel does not let lo be the ingress: %v", err)
	}
	samples, _ := b.samples()
	if len(samples) != 1 || samples[0].Ifindex != 1 || samples[0].RxQueue != 0 {
		t.Errorf("%+v", samples)
	}
}
