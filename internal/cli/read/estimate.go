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

// A sampling describes how the packets of the files were sampled, as far as estimates need it.
type sampling struct {
	weight   uint32                   // the largest weight of a packet: how many it represents
	verdicts [xdp.VerdictSlots]uint32 // the largest weight of the packets with each verdict
	length   uint32                   // of the longest packet
	byRate   bool                     // verdicts have sampling rates of their own
	unfixed  []string                 // sampling without a fixed rate, in words; at most maxUnfixed
	further  uint64                   // how many such ways there are beyond maxUnfixed
	lost     uint64                   // sampled packets that were lost
}

// maxUnfixed bounds the ways of sampling that are listed. A capture has at most three. A hostile
// file may have very many, and finding duplicates among n of them takes n² comparisons.
const maxUnfixed = 64

// addSection adds the ways of sampling in the comments of a section.
func (d *sampling) addSection(comments []string) {
	for _, comment := range comments {
		ways, byVerdict := capture.ParseSampling(comment)
		d.byRate = d.byRate || byVerdict
		for _, way := range ways {
			switch {
			case slices.Contains(d.unfixed, way):
			case len(d.unfixed) < maxUnfixed:
				d.unfixed = append(d.unfixed, way)
			default:
				d.further++
			}
		}
	}
}

func (d *sampling) addPacket(p *capture.Packet, length, weight uint32) {
	d.weight, d.length = max(d.weight, weight), max(d.length, length)
	d.lost += p.Dropped
}

// addVerdict adds the weight of a packet whose verdict is known.
func (d *sampling) addVerdict(slot int, weight uint32) {
	d.verdicts[slot] = max(d.verdicts[slot], weight)
}

// estimate estimates the packets and bytes before sampling. It is nil if all packets were kept.
func (d *sampling) estimate(t *readTally) *EstimateKeys { return d.estimateWithin(t, d.weight) }

// estimateVerdict is estimate for all packets with a verdict, which may have a rate of its own.
func (d *sampling) estimateVerdict(slot int, t *readTally) *EstimateKeys {
	if d.byRate {
		return d.estimateWithin(t, d.verdicts[slot])
	}
	return d.estimate(t)
}

// estimateWithin is estimate for packets of at most this weight.
func (d *sampling) estimateWithin(t *readTally, weight uint32) *EstimateKeys {
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

// notEstimated describes the packets that the estimates do not include.
func (d *sampling) notEstimated() []string {
	all := slices.Clone(d.unfixed)
	if d.further > 0 {
		all = append(all, fmt.Sprintf("%d further remarks in comments about sampling", d.further))
	}
	if d.weight > 1 && d.lost > 0 {
		all = append(all, fmt.Sprintf("the weight of %s that were drawn and lost", frame.Packets(d.lost)))
	}
	return all
}

// readRate is the rate of packets that are read, and an estimate of the packets before sampling.
type readRate struct {
	meter.Rate
	Estimate *EstimateKeys `json:"estimate,omitempty"` // nil if all packets were kept
}

// EstimateKeys are an estimate with bounds, which contain the true number in 95 of 100 captures.
type EstimateKeys struct {
	Packets     uint64 `json:"packets"`
	PacketsLow  uint64 `json:"packets_low"`
	PacketsHigh uint64 `json:"packets_high"`
	Bytes       uint64 `json:"bytes"`
	BytesLow    uint64 `json:"bytes_low"`
	BytesHigh   uint64 `json:"bytes_high"`
}

// estimateTable prints the estimates of interfaces and verdicts, and NotEstimated.
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
	const columns = 27 // of an address, because there are more numbers than without estimates
	t.Add("FLOW", "FROM", "TO", "BYTES", "AT LEAST", "AT MOST")
	for _, f := range r.Flows {
		from, to := f.ends(columns)
		e := f.Estimate
		t.Add(f.Protocol, from, to, frame.Scaled(float64(e.Bytes)), frame.Scaled(float64(e.BytesLow)), frame.Scaled(float64(e.BytesHigh)))
	}
}
