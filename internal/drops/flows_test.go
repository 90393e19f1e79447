package drops

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// everyFlow is more flows than a test has.
const everyFlow = 1 << 20

// flows returns the packets of each flow of the test's addresses, and checks that flows and other
// losses are those of each stage. It omits flows without a reason: what sockets of other tests,
// with the same addresses, had not read when they were closed. See isStrange.
func (n *network) flows(c Counts) map[string]uint64 {
	n.Helper()
	for _, top := range []int{0, 1, everyFlow} {
		sums := make(map[Stage]uint64)
		for _, s := range TopFlows(meter.Interval[Counts]{Now: c}, top) {
			sums[s.Stage] = s.Other.Packets
			for _, f := range s.Top {
				sums[s.Stage] += f.Packets
			}
			if len(s.Top) > top {
				n.Errorf("%d flows of %v", len(s.Top), s.Stage)
			}
		}
		want := make(map[Stage]uint64)
		for l, tally := range c.Losses {
			want[l.Stage] += tally.Packets
		}
		if diff := cmp.Diff(want, sums); diff != "" {
			n.Errorf("losses of the stages, and those of %d flows and others: %s", top, diff)
		}
	}
	found := make(map[string]uint64)
	for _, s := range TopFlows(meter.Interval[Counts]{Now: c}, everyFlow) {
		for _, f := range s.Top {
			if f.Reason == "NOT_SPECIFIED" {
				continue
			}
			if isOwn := func(a netip.AddrPort) bool {
				return a.Addr() == addressOf(testnet.TxEndpoint.IPv4) || a.Addr() == addressOf(testnet.TxEndpoint.IPv6)
			}; isOwn(f.Flow.Source) || isOwn(f.Flow.Destination) {
				found[fmt.Sprint(s.Stage, " ", f.Reason, " ", f.Flow.Class.Protocol(), " ", f.Flow.Source, " ", f.Flow.Destination)] += f.Packets
			}
		}
	}
	return found
}

func addressOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// Each flow has its losses, by stage and reason: of IPv4 and IPv6, in segments, at a socket and on
// the way out. A buffer that holds several packets is counted as several.
func TestFlowsOfLosses(t *testing.T) {
	t.Parallel()
	const sent = 30
	n := newNetworkOf(t, testnet.PairOptions{Addresses: true, IPv6: true})
	n.meet() // otherwise answers to ARP would find the slow queue full of other packets
	full, full6 := n.listen(testnet.RxEndpoint.IPv4), n.listen(testnet.RxEndpoint.IPv6)
	n.slowDown(n.RxIndex, 2_000_000)
	m := n.openMeter()
	path := testnet.TxToRx()
	n.send(9, sent)
	n.send(full, sent)
	for range sent {
		n.must(n.sender.Send(path.UDPv6(1000, 9, make([]byte, 100))))
		n.must(n.sender.Send(path.UDPv6(1000, full6, make([]byte, 100))))
		n.must(n.sender.Send(path.TCP(testnet.Segment{SrcPort: 5, DstPort: 7, Ack: 1, Payload: make([]byte, 10)})))
	}
	segments := n.dial(10)
	raw, err := segments.SyscallConn()
	n.must(err)
	raw.Control(func(fd uintptr) {
		n.must(unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 100))
	})
	n.write(segments, 1, 1000)
	dropped := uint64(0)
	n.must(n.Rx.Do(func() error {
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: testnet.RxEndpoint.IPv4, Port: 77}, &net.UDPAddr{IP: testnet.TxEndpoint.IPv4, Port: 9})
		must(t, err)
		defer conn.Close()
		raw, err := conn.SyscallConn()
		must(t, err)
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) }) // or nobody hears of a full queue
		for range 50 {
			if _, err := conn.Write(make([]byte, 500)); errors.Is(err, unix.ENOBUFS) {
				dropped++
			}
		}
		return err
	}))
	c := n.counts(m)
	found := n.flows(c)
	totals := make(map[string]Tally)
	for l, tally := range c.Losses {
		tally.Add(totals[l.Reason])
		totals[l.Reason] = tally
		if l.Device != "" && l.Device != "?" { // "" is the interface that the meter was opened for
			t.Errorf("lost at another interface: %+v", l)
		}
	}
	inFull := fmt.Sprint("socket SOCKET_RCVBUFF udp 192.0.2.1:1000 192.0.2.2:", full)
	inFull6 := fmt.Sprintf("socket SOCKET_RCVBUFF udp [%v]:1000 [%v]:%d", path.Src.IPv6, path.Dst.IPv6, full6)
	if found[inFull]+found[inFull6] != totals["SOCKET_RCVBUFF"].Packets || found[inFull] >= sent || found[inFull6] >= sent {
		t.Errorf("%d and %d packets to full sockets, of %d to each", found[inFull], found[inFull6], sent)
	}
	toClosed := uint64(0)
	for key, packets := range found {
		if strings.Contains(key, " NO_SOCKET ") {
			toClosed += packets
		}
	}
	if none := totals["NO_SOCKET"]; none.Packets != toClosed {
		t.Errorf("%+v to closed ports, and %d of flows; one buffer had 10 packets", none, toClosed)
	}
	want := map[string]uint64{
		"stack NO_SOCKET udp 192.0.2.1:1000 192.0.2.2:9":                                  sent,
		"stack NO_SOCKET tcp 192.0.2.1:5 192.0.2.2:7":                                     sent,
		fmt.Sprint("stack NO_SOCKET udp ", segments.LocalAddr(), " 192.0.2.2:10"):         10,
		fmt.Sprintf("stack NO_SOCKET udp [%v]:1000 [%v]:9", path.Src.IPv6, path.Dst.IPv6): sent,
		inFull:                                found[inFull],
		inFull6:                               found[inFull6],
		"egress udp 192.0.2.2:77 192.0.2.1:9": dropped,
	}
	for _, key := range slices.Sorted(maps.Keys(found)) { // answers of the receiving side find the queue full, too, and its reason depends on the kernel
		words := strings.Fields(key)
		if words[0] == "egress" {
			found[fmt.Sprint("egress ", strings.Join(words[2:], " "))] = found[key]
			delete(found, key)
		}
	}
	for key, packets := range want {
		if found[key] != packets || packets == 0 {
			t.Errorf("%s: %d packets, want %d of %v", key, found[key], packets, slices.Sorted(maps.Keys(found)))
		}
	}
}

// What XDP throws away, and what nobody misses, is in no flow, also where the stack frees it.
func TestFlowsOfNoLosses(t *testing.T) {
	t.Parallel()
	const sent = 20
	for mode, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			m := n.openMeter()
			other := testnet.TxToRx()
			other.Dst.MAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}
			for range sent {
				n.must(n.sender.Send(other.UDP(1000, 9, make([]byte, 100))))
			}
			n.send(10, 1) // so that the stage is there
			testnet.WaitHandled(n)
			n.attach(verdict(xdp.Drop), flags)
			n.must(n.Rx.Do(func() error { _, err := m.Follow(); return err }))
			n.send(9, sent)
			var c Counts
			testnet.WaitFor(t, "the losses", func() bool {
				c = n.counts(m)
				return stageTotals(c.Losses)[XDP].Packets >= sent
			})
			if diff := cmp.Diff(map[string]uint64{"stack NO_SOCKET udp 192.0.2.1:1000 192.0.2.2:10": 1}, n.flows(c)); diff != "" {
				t.Error(diff)
			}
			if len(c.Harmless) == 0 {
				t.Error("no packets for another host")
			}
			if !c.Freed || c.Untraced == nil && testnet.ProbeFentry() != nil {
				t.Errorf("freed by the stack: %v; untraced: %v", c.Freed, c.Untraced)
			}
		})
	}
}

// With more flows than there is room for, each has at least what is counted and at most the error
// besides, and what made room is among the other losses.
func TestFlowsWithoutRoom(t *testing.T) {
	t.Parallel()
	const flows, rounds = 200, 3
	n := newNetwork(t)
	m := n.openMeterOf(Options{Interface: n.RxName, Flows: true, flowBuckets: 1})
	for range rounds {
		for port := range uint16(flows) {
			n.must(n.sender.Send(testnet.TxToRx().UDP(2000+port, 9, nil)))
		}
		for range 10 {
			n.send(9, 1)
		}
		testnet.WaitHandled(n) // the kernel's queue has room for 1000 packets of all interfaces
	}
	c := n.counts(m)
	if c.Flows.Overflow.Flows == 0 || c.Flows.Overflow.Most.Packets == 0 {
		t.Errorf("%+v", c.Flows.Overflow)
	}
	sum := c.Flows.Overflow.Packets
	for _, packets := range n.flows(c) {
		sum += packets
	}
	if want := uint64(flows*rounds + 10*rounds); sum < want || sum > stageTotals(c.Losses)[Stack].Packets {
		t.Errorf("%d packets in entries and evicted, want %d", sum, want)
	}
	for _, s := range TopFlows(meter.Interval[Counts]{Now: c}, everyFlow) {
		for _, f := range s.Top {
			if f.Reason == "NOT_SPECIFIED" { // of other tests, as in n.flows
				continue
			}
			truth := uint64(rounds)
			if f.Flow.Source.Port() == 1000 {
				truth = 10 * rounds
			}
			if f.Flow.Source.Addr() == addressOf(testnet.TxEndpoint.IPv4) && (f.Packets > truth || f.Packets+f.Error.Packets < truth) {
				t.Errorf("%+v, and %d were lost", f, truth)
			}
		}
	}
}

// The largest flows of a stage come first, and the rate of its other losses is that of the stage
// without theirs.
func TestTopFlows(t *testing.T) {
	t.Parallel()
	flow := func(port uint16) meter.Flow {
		return meter.Flow{Class: meter.IPv4(17), Source: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port), Destination: netip.MustParseAddrPort("192.0.2.2:9")}
	}
	counts := func(stack, card uint64, packets ...uint64) (c Counts) {
		c.Losses = map[Loss]Tally{
			{Stage: Stack, Reason: "NO_SOCKET"}:     {Packets: stack - 1, Bytes: 100 * (stack - 1)},
			{Stage: Stack, Reason: "NOT_SPECIFIED"}: {Packets: 1, Bytes: 100},
		}
		if card > 0 {
			c.Losses[Loss{Stage: Card, Reason: "rx_missed"}] = Tally{Packets: card}
		}
		c.Flows.reasons = lost.Reasons{3: "NO_SOCKET", 6: "SOCKET_RCVBUFF"}
		bucket := meter.FlowBucket{}
		for i, n := range packets {
			bucket.Entries = append(bucket.Entries, meter.FlowEntry{Flow: flow(uint16(i)), Verdict: 3, Counted: meter.Tally{Packets: n, Bytes: 100 * n}})
		}
		c.Flows.Flows = [][]meter.FlowBucket{{bucket}}
		return c
	}
	i := meter.Interval[Counts]{Before: counts(100, 0, 10, 50, 20), Now: counts(200, 7, 20, 70, 60, 1), Took: 2 * time.Second}
	rate := func(packets uint64, lately float64) meter.Rate {
		return meter.Rate{Packets: packets, Bytes: 100 * packets, PacketsPerSecond: lately / 2, BitsPerSecond: 400 * lately}
	}
	want := []StageFlows{
		{Stage: Card, Top: nil, Other: meter.Rate{Packets: 7, PacketsPerSecond: 3.5}},
		{Stage: Stack, Top: []FlowLoss{
			{Reason: "NO_SOCKET", Flow: flow(1), Rate: rate(70, 20)},
			{Reason: "NO_SOCKET", Flow: flow(2), Rate: rate(60, 40)},
		}, Other: rate(70, 40)},
	}
	same := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	if diff := cmp.Diff(want, TopFlows(i, 2), same, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
