package top

import (
	"time"

	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A reading has the counters of one interface at the beginning and the end of a second. Those that
// are not counted are zero.
type reading struct {
	name     string
	how      string // where and how packets are counted: "tracing lb (id 7); sent"
	in, out  meter.Interval[meter.ProtocolCounts]
	verdicts meter.Interval[meter.ActionCounts]
	latency  meter.Interval[meter.LatencyCounts]
	runtime  meter.Interval[meter.RuntimeCounts] // instead of latency, for an untraceable program
	traced   bool                                // the verdicts of a program are counted
}

// total is the rate of received and sent packets together.
func (r *reading) total() meter.Rate {
	in, out := r.in.Now.Total(), r.out.Now.Total()
	sum := meter.NewRate(r.in.Before.Total(), in, r.in.Took)
	sum.Add(meter.NewRate(r.out.Before.Total(), out, r.out.Took))
	return sum
}

// readings are the readings of all interfaces for about the same second.
type readings struct {
	at         time.Time // the end of the second
	interfaces []*reading
	drops      meter.Interval[drops.Counts]
	whyEmpty   [kinds]string // why a table has no rows
}

// total is the rate of all interfaces together.
func (r *readings) total() (sum meter.Rate) {
	for _, one := range r.interfaces {
		sum.Add(one.total())
	}
	return sum
}

// dropped is the share of the packets of the last second that XDP programs dropped or aborted, 0 to
// 1; negative if no verdicts were counted.
func (r *readings) dropped() float64 {
	var all, lost float64
	for _, one := range r.interfaces {
		before, now := one.verdicts.Before.Total(), one.verdicts.Now.Total()
		for v := range now {
			n := meter.PerSecond(before[v].Packets, now[v].Packets, one.verdicts.Took)
			all += n
			if xdp.Loses(xdp.Verdict(v)) {
				lost += n
			}
		}
	}
	if all == 0 {
		return -1
	}
	return lost / all
}
