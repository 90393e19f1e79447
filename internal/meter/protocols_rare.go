package meter

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// rareClasses selects the EtherTypes that have a class of their own, which they keep when they are
// evicted from the table. The packets of all others count as noRoom. Only one goroutine may use it
// at a time.
type rareClasses struct {
	aging    Aging[Class]
	evicted  map[Class][]Tally  // counts of evicted entries, by CPU; Naive has one for all CPUs
	numbered map[Class]struct{} // EtherTypes without a name that have a class of their own
}

func newRareClasses(keep int) rareClasses {
	return rareClasses{Aging[Class]{Keep: keep}, make(map[Class][]Tally), make(map[Class]struct{})}
}

// maxNumbered is how many EtherTypes without a name get a class of their own, until Close. Senders
// choose the EtherType: without a limit they could create 65,536 labels in Prometheus. The
// EtherTypes with a name are few, and always have a class.
const maxNumbered = 64

// fold moves the packets of EtherTypes without a class of their own to noRoom, in a snapshot. It
// first gives classes, up to maxNumbered, to those with the most packets. An EtherType keeps its
// class, and no EtherType that was folded into noRoom gets one later, so no counter ever falls.
func (r *rareClasses) fold(classes map[Class][]Tally) {
	var others []Class
	for class := range classes {
		if class >= EtherType(0) && !r.hasClass(class) {
			others = append(others, class)
		}
	}
	packets := func(class Class) uint64 { return Sum(classes[class]).Packets }
	slices.SortFunc(others, func(a, b Class) int {
		return cmp.Or(cmp.Compare(packets(b), packets(a)), cmp.Compare(a, b))
	})
	for _, class := range others {
		if len(r.numbered) < maxNumbered {
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

// addTo adds the counts of evicted entries to the classes of a snapshot.
func (r *rareClasses) addTo(classes map[Class][]Tally) {
	for class, tallies := range r.evicted {
		addTallies(classes, class, tallies)
	}
}

// evictQuiet evicts EtherTypes from the table, and keeps their counts: under their own class if
// they have one, or else under noRoom. A packet that arrives between the kernel's look-up of its
// entry and the eviction of this entry is not counted; it would be the first in a minute.
func (p *Protocols) evictQuiet(now time.Time) error {
	r, table, slots := &p.rare, p.maps[protocolsMapEthertypes], ebpf.MustPossibleCPU()
	if p.options.Variant == Naive {
		table, slots = p.maps[protocolsMapNaiveTallies], 1
	}
	count := func(class Class, perCPU []Tally) (n uint64, mayEvict bool) {
		return Sum(perCPU).Packets, class >= EtherType(0)
	}
	return EvictQuiet(&r.aging, now, table, slots, count, func(class Class, perCPU []Tally) {
		if !r.hasClass(class) {
			class = noRoom
		}
		addTallies(r.evicted, class, perCPU)
	})
}
