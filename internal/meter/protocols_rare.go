package meter

import (
	"errors"
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
	if !r.isDue(now) {
		return nil
	}
	table, slots := m.ethertypes, ebpf.MustPossibleCPU()
	if m.variant == Naive {
		table, slots = m.naive, 1
	}
	counts := make(map[Class]uint64)
	err := eachHash(table, slots, func(class uint32, perCPU []protocolsTally) {
		if Class(class) >= EtherType(0) {
			counts[Class(class)] = sum(perCPU).Packets
		}
	})
	if err != nil {
		return err
	}
	for _, class := range r.look(now, counts) {
		tallies := make([]protocolsTally, slots)
		var value any = &tallies
		if m.variant == Naive {
			value = &tallies[0]
		}
		if err := table.LookupAndDelete(uint32(class), value); err != nil {
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				continue
			}
			return err
		}
		if r.tallies == nil {
			r.tallies = make([]Tally, slots)
		}
		for cpu, t := range tallies {
			r.tallies[cpu].Add(Tally{t.Packets, t.Bytes})
		}
	}
	return nil
}
