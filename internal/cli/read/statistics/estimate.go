package statistics

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/count"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A readDraw is how the packets that are read were drawn, as far as estimates need it.
type readDraw struct {
	weight   uint32                   // the largest that a packet has
	verdicts [xdp.VerdictSlots]uint32 // the same of packets with each verdict
	length   uint32                   // of the longest packet
	several  bool                     // verdicts have rates of their own
	passed   []string                 // how packets were passed over at no fixed rate: maxPassed at most
	further  uint64                   // what more the files say about that
	lost     uint64                   // packets that were drawn
}

// maxPassed is how many ways of passing packets over are told apart. A capture has three at most,
// and a hostile file as many as it has bytes for: to look through all of them would take as long as
// the square of its size.
const maxPassed = 64

// section reads how a capture has sampled, from the words of a section's comments.
func (d *readDraw) section(comments []string) {
	for _, comment := range comments {
		ways, byVerdict := capture.ParseSampling(comment)
		d.several = d.several || byVerdict
		for _, way := range ways {
			d.passesOver(way)
		}
	}
}

// passesOver keeps a way in which packets were passed over, unless it is known.
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

// verdict takes the weight of a packet whose verdict is known.
func (d *readDraw) verdict(v int, weight uint32) { d.verdicts[v] = max(d.verdicts[v], weight) }

// estimate tells what there was before packets were drawn. It is nil where all were kept.
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

// notEstimated is what the estimates leave out.
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

// readRate is a rate of the packets that are read, and what there was before they were drawn.
type readRate struct {
	counters.Rate
	Estimate *EstimateKeys `json:"estimate,omitempty"` // where some stand for several
}

// EstimateKeys are what is expected, and bounds between which the truth is in 95 of 100 captures.
type EstimateKeys struct {
	Packets     uint64 `json:"packets"`
	PacketsLow  uint64 `json:"packets_low"`
	PacketsHigh uint64 `json:"packets_high"`
	Bytes       uint64 `json:"bytes"`
	BytesLow    uint64 `json:"bytes_low"`
	BytesHigh   uint64 `json:"bytes_high"`
}

// estimateTable prints the estimates of interfaces and verdicts, and what they leave out.
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
		fmt.Fprintf(w, "not estimated: %s\n", escape.Text(text))
	}
}

// estimateFlows adds the flows to their table, with estimates in place of what was drawn.
func (r *Report) estimateFlows(t *frame.Table) {
	const room = 27
	t.Add("FLOW", "FROM", "TO", "BYTES", "AT LEAST", "AT MOST")
	for _, f := range r.Flows {
		e := f.Estimate
		t.Add(f.Protocol, count.Endpoint(f.Source, f.SourcePort, room), count.Endpoint(f.Destination, f.DestinationPort, room),
			frame.Scaled(float64(e.Bytes)), frame.Scaled(float64(e.BytesLow)), frame.Scaled(float64(e.BytesHigh)))
	}
}
