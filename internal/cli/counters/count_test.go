package counters

import (
	"net/netip"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func flowOf(class meter.Class, from, to string) meter.Flow {
	return meter.Flow{Class: class, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
}

var (
	oldFlow   = flowOf(meter.IPv4(6), "192.0.2.1:40001", "192.0.2.2:443")
	wideFlow  = flowOf(meter.IPv6(60), "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", "[2001:db8:1111:2222:3333:4444:5555:7777]:65535")
	quietFlow = flowOf(meter.IPv4(1), "192.0.2.1:0", "192.0.2.2:0")
	reborn    = flowOf(meter.IPv4(17), "192.0.2.1:5", "192.0.2.2:6")
)

// flowsOf is a table of one CPU with one bucket.
func flowsOf(entries ...meter.FlowEntry) [][]meter.FlowBucket {
	return [][]meter.FlowBucket{{{Entries: entries}}}
}

func protocolCounts(scale uint64) meter.ProtocolCounts {
	tally := func(n uint64) meter.Tally { return meter.Tally{Packets: n * scale, Bytes: 100 * n * scale} }
	two := func(n uint64) []meter.Tally { return []meter.Tally{tally(n), tally(2 * n)} }
	c := meter.ProtocolCounts{
		Classes: map[meter.Class][]meter.Tally{
			meter.IPv4(6):           two(100),
			meter.IPv6(17):          two(50),
			meter.IPv4(200):         two(7),
			meter.EtherType(0x0806): two(3),
			meter.EtherType(0x88b5): two(2),
			meter.Truncated:         two(1),
		},
		FlowCounts: meter.FlowCounts{
			Flows: flowsOf(
				meter.FlowEntry{Flow: oldFlow, Verdict: meter.NoVerdict, Counted: tally(10)},
				meter.FlowEntry{Flow: wideFlow, Verdict: meter.NoVerdict, Counted: tally(2000)},
				meter.FlowEntry{Flow: quietFlow, Verdict: meter.NoVerdict, Counted: meter.Tally{Packets: 5, Bytes: 500}},
			),
			Overflow: meter.FlowOverflow{Flows: 2 * scale, Tally: tally(4), Most: tally(1)},
		},
	}
	for i := range c.Sizes {
		c.Sizes[i] = tally(uint64(i) * 10)
	}
	return c
}

func widestProtocols() meter.ProtocolCounts {
	perCPU := make([]meter.Tally, 1000)
	perCPU[999] = meter.Tally{Packets: clitest.Most, Bytes: clitest.Most}
	c := meter.ProtocolCounts{Classes: map[meter.Class][]meter.Tally{meter.EtherType(0x8863): perCPU}}
	c.Sizes[5] = meter.Tally{Packets: clitest.Most, Bytes: clitest.Most}
	// Nearly a terabit per second.
	all := meter.Tally{Packets: clitest.Most, Bytes: 2.4e11}
	c.Flows = flowsOf(meter.FlowEntry{Flow: wideFlow, Verdict: xdp.Redirect, Counted: all, Error: all})
	c.Overflow = meter.FlowOverflow{Flows: 1e9, Tally: meter.Tally{Packets: 1e15, Bytes: clitest.Most}, Most: meter.Tally{Packets: clitest.Most, Bytes: clitest.Most}}
	return c
}

func TestCountTables(t *testing.T) {
	t.Parallel()
	// This flow had to make room, and came back.
	before, now := protocolCounts(10), protocolCounts(30)
	gone := meter.Tally{Packets: 100, Bytes: 1e9}
	addEntry := func(c meter.ProtocolCounts, e meter.FlowEntry) {
		c.Flows[0][0].Entries = append(c.Flows[0][0].Entries, e)
	}
	addEntry(before, meter.FlowEntry{Flow: reborn, Verdict: meter.NoVerdict, Counted: gone})
	addEntry(now, meter.FlowEntry{Flow: reborn, Verdict: meter.NoVerdict, Counted: meter.Tally{Packets: 2, Bytes: 1200}, Error: gone})
	decided := protocolCounts(20)
	for i := range decided.Flows[0][0].Entries {
		decided.Flows[0][0].Entries[i].Verdict = xdp.Verdict(i)
	}
	traced := &xdp.Program{ID: 7, Name: "firewall"}
	everything := CountOptions{Sizes: true, Flows: 3, Options: Options{perCPU: true}}
	for _, test := range []struct {
		name     string
		interval meter.Interval[meter.ProtocolCounts]
		o        CountOptions
		traced   *xdp.Program
	}{
		{"count", clitest.IntervalOf(before, now), CountOptions{}, nil},
		{"count-all", clitest.IntervalOf(before, now), everything, nil},
		{"count-verdicts", clitest.IntervalOf(meter.ProtocolCounts{}, decided), CountOptions{Flows: 3, verdicts: []xdp.Verdict{xdp.Aborted, xdp.Drop, xdp.Pass}}, traced},
		{"count-nothing", clitest.IntervalOf(meter.ProtocolCounts{}, meter.ProtocolCounts{}), everything, nil},
		{"count-widest", clitest.IntervalOf(meter.ProtocolCounts{}, widestProtocols()), everything, traced},
	} {
		t.Run(test.name, func(t *testing.T) {
			clitest.CheckReport(t, test.name, newCountReport(&test.o, capture.In, "rx0", test.traced, test.interval))
		})
	}
}

// The conversations of both directions are in the table of the received packets, and only there.
// The objects have those of their own direction.
func TestCountConversations(t *testing.T) {
	t.Parallel()
	o := CountOptions{Flows: 3}
	back := protocolCounts(1)
	answer := flowOf(meter.IPv4(6), "192.0.2.2:443", "192.0.2.1:40001")
	back.Flows = flowsOf(meter.FlowEntry{Flow: answer, Verdict: meter.NoVerdict, Counted: meter.Tally{Packets: 3000, Bytes: 4_000_000}})
	in := newCountReport(&o, capture.In, "rx0", nil, clitest.IntervalOf(protocolCounts(10), protocolCounts(30)))
	out := newCountReport(&o, capture.Out, "rx0", nil, clitest.IntervalOf(meter.ProtocolCounts{}, back))
	other := newCountReport(&o, capture.Out, "rx1", nil, clitest.IntervalOf(meter.ProtocolCounts{}, back))
	in.Join([]Report{in, out, other})
	clitest.CheckReport(t, "count-both-in", in)
	clitest.CheckReport(t, "count-both-out", out)
	if out.intervals = nil; !out.shownElsewhere || other.shownElsewhere {
		t.Error("the table of another interface is left out, or that of the sent packets is not")
	}
}

func TestCountMetrics(t *testing.T) {
	t.Parallel()
	for _, perCPU := range []bool{false, true} {
		o := CountOptions{Sizes: true, Flows: 5, Options: Options{perCPU: perCPU}}
		clitest.CheckMetrics(t, protocolCounts(2), countMetrics(&o, capture.In, "rx0"))
	}
}
