package meter

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// rareClasses decides which EtherTypes have a class of their own, also while they are removed from
// their table to make room. The packets of all others count as noRoom. Only one goroutine may use
// it at a time.
type rareClasses struct {
	aging    Aging[Class]
	removed  map[Class][]Tally  // from the table, by CPU; naive has one for all CPUs
	numbered map[Class]struct{} // EtherTypes without a name that have a class of their own
}

// maxNumbered is how many EtherTypes without a name get a class of their own in a meter's life.
// Without a limit, a reader that keeps a label for each, such as Prometheus, could get 65,536,
// because any sender chooses them. The EtherTypes with a name are few, and always have a class.
const maxNumbered = 64

// fold adds the EtherTypes of a snapshot that have no class of their own to noRoom's. An EtherType
// keeps its class, and one without a class never gets one, so that no counter goes down.
func (r *rareClasses) fold(classes map[Class][]Tally) {
	var others []Class
	for class := range classes {
		if class >= EtherType(0) && !r.hasClass(class) {
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
		addTallies(classes, noRoom, classes[class])
		delete(classes, class)
	}
}

// hasClass reports whether an EtherType has a class of its own, which it then keeps.
func (r *rareClasses) hasClass(etherType Class) bool {
	_, numbered := r.numbered[etherType]
	return numbered || headers.HasEtherTypeName(uint16(etherType.Number()))
}

// addTallies adds packets to those of a class.
func addTallies(classes map[Class][]Tally, class Class, tallies []Tally) {
	sum := make([]Tally, len(tallies))
	copy(sum, classes[class])
	for cpu, t := range tallies {
		sum[cpu].Add(t)
	}
	classes[class] = sum
}

// addTo adds the counts of removed entries to the classes of a snapshot.
func (r *rareClasses) addTo(classes map[Class][]Tally) {
	for class, tallies := range r.removed {
		addTallies(classes, class, tallies)
	}
}

// forget removes EtherTypes from the table when it is time to, and keeps their counts. If an
// EtherType has a class of its own, its counts are added to that class, and otherwise to noRoom. A
// packet of such an EtherType that comes at this very moment, as the first in a minute, may not be
// counted.
func (p *Protocols) forget(now time.Time) error {
	r, table, slots := &p.rare, p.maps[protocolsMapEthertypes], ebpf.MustPossibleCPU()
	if p.options.Variant == Naive {
		table, slots = p.maps[protocolsMapNaiveTallies], 1
	}
	return Forget(&r.aging, now, table, slots, func(class Class, perCPU []protocolsTally) (uint64, bool) {
		return sum(perCPU).Packets, class >= EtherType(0)
	}, func(class Class, perCPU []protocolsTally) {
		if !r.hasClass(class) {
			class = noRoom
		}
		if r.removed == nil {
			r.removed = make(map[Class][]Tally)
		}
		tallies := make([]Tally, len(perCPU))
		for cpu, t := range perCPU {
			tallies[cpu] = tallyOf(t)
		}
		addTallies(r.removed, class, tallies)
	})
}
