package top

import (
	"time"

	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A reading is what the counters of one interface told at the beginning and the end of a second.
// What is not counted is zero.
type reading struct {
	name     string
	how      string // where and how its packets are counted
	in, out  meter.Interval[meter.ProtocolCounts]
	verdicts meter.Interval[meter.ActionCounts]
	latency  meter.Interval[meter.LatencyCounts]
	runtime  meter.Interval[meter.RuntimeCounts] // where the program cannot be traced
	traced   bool                                // a program runs there, and its verdicts are counted
}

// total is the rate of what is received and sent together.
func (r *reading) total() meter.Rate {
	in, out := r.in.Now.Total(), r.out.Now.Total()
	sum := meter.NewRate(r.in.Before.Total(), in, r.in.Took)
	sum.Add(meter.NewRate(r.out.Before.Total(), out, r.out.Took))
	return sum
}

// readings are those of all interfaces at about one time.
type readings struct {
	at         time.Time
	interfaces []*reading
	drops      meter.Interval[drops.Counts]
	why        [kinds]string // why a table is empty
}

// total is the rate of all interfaces together.
func (r *readings) total() (sum meter.Rate) {
	for _, one := range r.interfaces {
		sum.Add(one.total())
	}
	return sum
}

// dropped is the share of the packets of the last second that XDP programs dropped or aborted;
// negative if that is not known.
func (r *readings) dropped() float64 {
	var all, lost float64
	for _, one := range r.interfaces {
		before, now := one.verdicts.Before.Total(), one.verdicts.Now.Total()
		for v := range now {
			n := meter.PerSecond(before[v].Packets, now[v].Packets, one.verdicts.Took)
			if all += n; xdp.Loses(xdp.Verdict(v)) {
				lost += n
			}
		}
	}
	if all == 0 {
		return -1
	}
	return lost / all
}
