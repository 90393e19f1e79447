package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Result counts packets by the verdicts of a program, and by how they differ from the capture or
// from the other program.
type Result struct {
	Verdicts    [xdp.VerdictSlots]Tally // by [xdp.Verdict.Slot]
	Total       Tally
	NotRun      NotRun
	Cut         uint64 // packets that ran, of which the capture has only the beginning
	AsLeft      uint64 // packets that ran as the captured program left them, because the capture lacks its entry
	Compared    uint64 // packets whose verdict in the capture or by the other program is known
	Differences []Difference
}

// A Tally counts packets.
type Tally struct {
	Packets, Bytes uint64 // as they came in
	Changed        uint64 // packets that the program changed: their bytes or their length
	Times          meter.Histogram
}

// NotRun are the packets that were not run.
type NotRun struct {
	NotReceived uint64 // packets of the other direction, and those that the stack or a redirect lost
	NotEthernet uint64
	Short       uint64 // shorter than an Ethernet header
	Long        uint64 // longer than BPF_PROG_RUN accepts
}

// Total returns their sum.
func (l *NotRun) Total() uint64 { return l.NotReceived + l.NotEthernet + l.Short + l.Long }

// counter returns the counter of packets like this one, or nil if a program that gets packets of
// this direction can run on it.
func (l *NotRun) counter(p *capture.Packet, s *capture.Source, of capture.Direction) *uint64 {
	direction, known := s.DirectionOf(p)
	switch {
	case s.Hook.Loses(), known && direction != of:
		return &l.NotReceived
	case !s.IsEthernet():
		return &l.NotEthernet
	case len(p.Data) < minPacket:
		return &l.Short
	case len(p.Data) > maxPacket:
		return &l.Long
	}
	return nil
}

// A Difference counts packets whose outcome differs in one way, such as drop instead of pass.
type Difference struct {
	Was, Now   xdp.Verdict
	OtherBytes bool // both left the packet, but with different bytes
	Packets    uint64
	Flows      []FlowPackets // with most packets first
	MoreFlows  uint64        // packets of other flows
	First      time.Time     // of the first packet
}

// FlowPackets has the number of a flow's packets.
type FlowPackets struct {
	Flow    meter.Flow
	Packets uint64
}

// maxFlows is the number of flows of a difference that are counted separately; the packets of
// further flows are counted together.
const maxFlows = 1 << 14

// A resultBuilder is the Result while packets run.
type resultBuilder struct {
	Result
	expect *Expectations
	all    map[differenceKey]*flowDifference
}

// A differenceKey identifies a difference. otherBytes is false if the verdict discards the packet,
// because then its bytes do not matter.
type differenceKey struct {
	was, now   xdp.Verdict
	otherBytes bool
}

// A flowDifference is a Difference whose flows are still counted.
type flowDifference struct {
	Difference
	flows map[meter.Flow]uint64
}

// A compared is a packet with its outcome, and the outcome that it is compared with: see
// Input.reference.
type compared struct {
	now, was outcome
	known    bool // was is known
	packet   *capture.Packet
	before   []byte // the packet's bytes as it came in
}

func newResultBuilder(o *Options) *resultBuilder {
	return &resultBuilder{expect: o.Expect, all: make(map[differenceKey]*flowDifference)}
}

// add counts a packet that ran.
func (t *resultBuilder) add(p *compared) {
	for _, of := range []*Tally{&t.Verdicts[p.now.verdict.Slot()], &t.Total} {
		of.Packets++
		of.Bytes += uint64(p.packet.WireLen)
		if p.now.changed {
			of.Changed++
		}
		of.Times.Observe(p.now.took)
	}
	if t.expect != nil {
		t.expect.check(p, t.Total.Packets)
	}
	t.compare(p)
}

// compare counts a packet if both outcomes are known, and their difference if there is one.
func (t *resultBuilder) compare(p *compared) {
	if !p.known {
		return
	}
	t.Compared++
	key := differenceKey{was: p.was.verdict, now: p.now.verdict}
	bothKnown := p.was.leftHash != 0 && p.now.leftHash != 0
	key.otherBytes = bothKnown && p.was.leftHash != p.now.leftHash && key.was == key.now && !key.now.Discards()
	if key.was == key.now && !key.otherBytes {
		return
	}
	d := t.all[key]
	if d == nil {
		d = &flowDifference{flows: make(map[meter.Flow]uint64)}
		d.Was, d.Now, d.OtherBytes = key.was, key.now, key.otherBytes
		d.First = time.Unix(0, p.packet.Stamp())
		t.all[key] = d
	}
	d.Packets++
	flow, ok := meter.FlowOf(headers.Ethernet, p.before)
	if _, known := d.flows[flow]; !ok || !known && len(d.flows) == maxFlows {
		d.MoreFlows++
		return
	}
	d.flows[flow]++
}

// topFlows is the number of flows of a difference in a Result.
const topFlows = 5

// Result returns the result until now.
func (in *Input) Result() *Result {
	r := in.result.Result
	for _, d := range in.result.all {
		one := d.Difference
		for flow, packets := range d.flows {
			one.Flows = append(one.Flows, FlowPackets{flow, packets})
		}
		slices.SortFunc(one.Flows, func(a, b FlowPackets) int {
			return cmp.Or(cmp.Compare(b.Packets, a.Packets), a.Flow.Compare(b.Flow))
		})
		for _, rest := range one.Flows[min(topFlows, len(one.Flows)):] {
			one.MoreFlows += rest.Packets
		}
		one.Flows = one.Flows[:min(topFlows, len(one.Flows))]
		r.Differences = append(r.Differences, one)
	}
	slices.SortFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), a.First.Compare(b.First), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Now, b.Now))
	})
	return &r
}
