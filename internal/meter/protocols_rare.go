package meter

import (
	"time"

	"github.com/cilium/ebpf"
)

// rareClasses are EtherTypes that were taken out of their table to make room. Their packets are
// counted as those of noRoom from then on. It is for one goroutine at a time.
type rareClasses struct {
	aging[Class]
	tallies []Tally // by CPU; naive has one for all
}

// addTo adds the packets to the classes of a snapshot.
func (r *rareClasses) addTo(classes map[Class][]Tally) {
	if r.tallies == nil {
		return
	}
	sum := make([]Tally, len(r.tallies))
	copy(sum, classes[noRoom])
	for cpu, t := range r.tallies {
		sum[cpu].Add(t)
	}
	classes[noRoom] = sum
}

// forget takes EtherTypes out of the table where it is time to. A packet of such an EtherType that
// comes at this very moment, the first in a minute, may not be counted.
func (r *rareClasses) forget(m *protocolMaps, now time.Time) error {
	table, slots := m.ethertypes, ebpf.MustPossibleCPU()
	if m.variant == Naive {
		table, slots = m.naive, 1
	}
	return forget(&r.aging, now, table, slots, func(class Class, perCPU []protocolsTally) (uint64, bool) {
		return sum(perCPU).Packets, class >= EtherType(0)
	}, func(perCPU []protocolsTally) {
		if r.tallies == nil {
			r.tallies = make([]Tally, slots)
		}
		for cpu, t := range perCPU {
			r.tallies[cpu].Add(Tally{t.Packets, t.Bytes})
		}
	})
}
