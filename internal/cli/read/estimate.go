package read

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A readDraw is how the packets of the files were sampled, as far as estimates need it.
type readDraw struct {
	weight   uint32                   // the largest that a packet has
	verdicts [xdp.VerdictSlots]uint32 // the largest weight of packets with each verdict
	length   uint32                   // length of the longest packet
	several  bool                     // verdicts have rates of their own
	passed   []string                 // ways of sampling without a fixed rate: at most maxPassed
	further  uint64                   // number of such ways beyond maxPassed
	lost     uint64                   // sampled packets that were lost
}

// maxPassed is how many ways of sampling are told apart. A capture has at most three. A hostile
// file may have as many as fit into it: comparing all of them would take time with the square of
// its size.
const maxPassed = 64

// section reads how a capture has sampled from a section's comments.
func (d *readDraw) section(comments []string) {
	for _, comment := range comments {
		ways, byVerdict := capture.ParseSampling(comment)
		d.several = d.several || byVerdict
		for _, way := range ways {
			d.passesOver(way)
		}
	}
}

// passesOver records a way of sampling, unless it is known.
func (d *readDraw) passesOver(way string) {
	switch {
	case slices.Contains(d.passed, way):
	case len(d.passed) < maxPassed:
		d.passed = append(d.passed, way)
	default:
		d.further++
	}
}

func (d *readDraw) packet(p *capture.Packet, length, weight uint32) {
	d.weight, d.length = max(d.weight, weight), max(d.length, length)
	d.lost += p.Dropped
}

// verdict records the weight of a packet whose verdict is known.
func (d *readDraw) verdict(v int, weight uint32) { d.verdicts[v] = max(d.verdicts[v], weight) }

// estimate returns what there was before packets were sampled. It is nil if all were kept.
func (d *readDraw) estimate(t *readTally) *EstimateKeys { return d.estimateOf(t, d.weight) }

// estimateVerdict is estimate for all packets with a verdict, which may have a rate of its own.
func (d *readDraw) estimateVerdict(verdict int, t *readTally) *EstimateKeys {
	if d.several {
		return d.estimateOf(t, d.verdicts[verdict])
	}
	return d.estimate(t)
}

func (d *readDraw) estimateOf(t *readTally, weight uint32) *EstimateKeys {
	if d.weight <= 1 {
		return nil
	}
	round := func(x float64) uint64 { return uint64(math.Round(x)) }
	e := &EstimateKeys{Packets: round(t.packetsBefore.Estimate()), Bytes: round(t.bytesBefore.Estimate())}
	low, high := t.packetsBefore.Bounds(weight, 1)
	e.PacketsLow, e.PacketsHigh = round(low), round(high)
	low, high = t.bytesBefore.Bounds(weight, float64(d.length))
	e.BytesLow, e.BytesHigh = round(low), round(high)
	return e
}

// notEstimated lists what the estimates do not include.
func (d *readDraw) notEstimated() []string {
	all := slices.Clone(d.passed)
	if d.further > 0 {
		all = append(all, fmt.Sprintf("%d further remarks in comments about sampling", d.further))
	}
	if d.weight > 1 && d.lost > 0 {
		all = append(all, fmt.Sprintf("the weight of %s that were drawn and lost", frame.Packets(d.lost)))
	}
	return all
}

// readRate is a rate of the packets that are read, and an estimate of what there was before
// sampling.
type readRate struct {
	meter.Rate
	Estimate *EstimateKeys `json:"estimate,omitempty"` // if some packets stand for several
}

// EstimateKeys are an estimate, with bounds that contain the true number in 95 of 100 captures.
type EstimateKeys struct {
	Packets     uint64 `json:"packets"`
	PacketsLow  uint64 `json:"packets_low"`
	PacketsHigh uint64 `json:"packets_high"`
	Bytes       uint64 `json:"bytes"`
	BytesLow    uint64 `json:"bytes_low"`
	BytesHigh   uint64 `json:"bytes_high"`
}

// estimateTable prints the estimates of interfaces and verdicts, and what they do not include.
func (r *Report) estimateTable(w io.Writer) {
	if r.Total.Estimate != nil {
		t := &frame.Table{}
		t.Add("ESTIMATE", "PACKETS", "AT LEAST", "AT MOST", "BYTES", "AT LEAST", "AT MOST")
		add := func(name string, e *EstimateKeys) {
			cells := []string{frame.ShortenMiddle(name, 26)}
			for _, n := range []uint64{e.Packets, e.PacketsLow, e.PacketsHigh, e.Bytes, e.BytesLow, e.BytesHigh} {
				cells = append(cells, frame.Scaled(float64(n)))
			}
			t.Add(cells...)
		}
		for _, i := range r.Interfaces {
			add(i.label, i.Estimate)
		}
		add("total", r.Total.Estimate)
		for _, name := range verdictOrder {
			if v, ok := r.Verdicts[name]; ok {
				add(name, v.Estimate)
			}
		}
		t.Write(w)
	}
	for _, text := range r.NotEstimated {
		fmt.Fprintf(w, "not estimated: %s\n", message.Escape(text))
	}
}

// estimateFlows adds the flows to their table, with estimates instead of counts.
func (r *Report) estimateFlows(t *frame.Table) {
	const room = 27
	t.Add("FLOW", "FROM", "TO", "BYTES", "AT LEAST", "AT MOST")
	for _, f := range r.Flows {
		e := f.Estimate
		t.Add(f.Protocol, frame.Endpoint(f.Source, f.SourcePort, room), frame.Endpoint(f.Destination, f.DestinationPort, room),
			frame.Scaled(float64(e.Bytes)), frame.Scaled(float64(e.BytesLow)), frame.Scaled(float64(e.BytesHigh)))
	}
}
