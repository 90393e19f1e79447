package meter

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// rareClasses are EtherTypes that are not told apart: those that were taken out of their table to
// make room, and those that come when enough others have a place. Their packets are counted as
// those of noRoom from then on. It is for one goroutine at a time.
type rareClasses struct {
	aging[Class]
	tallies  []Tally            // of those that were taken out, by CPU; naive has one for all
	numbered map[Class]struct{} // EtherTypes without a name that are told apart
}

// maxNumbered is how many EtherTypes without a name are told apart in the life of a meter. Whoever
// keeps a label for each, as Prometheus does, could have 65,536 otherwise, because any sender
// chooses them. Those with a name are few, and are always told apart.
const maxNumbered = 64

// fold adds the EtherTypes of a snapshot that have no class of their own to noRoom's. An EtherType
// that got a class keeps it, and one that did not never gets one, so that no counter goes down.
func (r *rareClasses) fold(classes map[Class][]Tally) {
	var others []Class
	for class := range classes {
		if _, known := r.numbered[class]; class >= EtherType(0) && !known && !headers.HasEtherTypeName(uint16(class.Number())) {
			others = append(others, class)
		}
	}
	packets := func(class Class) (n uint64) {
		for _, t := range classes[class] {
			n += t.Packets
		}
		return n
	}
	slices.SortFunc(others, func(a, b Class) int {
		return cmp.Or(cmp.Compare(packets(b), packets(a)), cmp.Compare(a, b))
	})
	for _, class := range others {
		if len(r.numbered) < maxNumbered {
			if r.numbered == nil {
				r.numbered = make(map[Class]struct{})
			}
			r.numbered[class] = struct{}{}
			continue
		}
		addTallies(classes, classes[class])
		delete(classes, class)
	}
}

// addTallies adds packets to those of noRoom.
func addTallies(classes map[Class][]Tally, tallies []Tally) {
	sum := make([]Tally, len(tallies))
	copy(sum, classes[noRoom])
	for cpu, t := range tallies {
		sum[cpu].Add(t)
	}
	classes[noRoom] = sum
}

// addTo adds the packets to the classes of a snapshot.
func (r *rareClasses) addTo(classes map[Class][]Tally) {
	if r.tallies == nil {
		return
	}
	addTallies(classes, r.tallies)
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
