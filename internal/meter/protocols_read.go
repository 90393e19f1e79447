package meter

import (
	"slices"

	"github.com/cilium/ebpf"
)

// read reads the tables in the reverse of the order in which the kernel counts a packet in them:
// flows, sizes, classes. So a packet that arrives meanwhile may be in the classes only, and flows
// and sizes never add up to more than the classes.
func (p *Protocols) read(sizes bool) (c ProtocolCounts, err error) {
	if c.FlowCounts, err = p.flows.Read(); err != nil {
		return c, err
	}
	if sizes {
		slots, err := ReadArray[Tally](p.maps[protocolsMapSizes])
		if err != nil {
			return c, err
		}
		for i, perCPU := range slots {
			c.Sizes[i] = Sum(perCPU)
		}
	}
	c.Classes, err = p.classes()
	return c, err
}

// classes returns the classes that have packets. Each variant has another table for IP protocols.
// Naive has EtherTypes in the same table, and the others have a second table for these.
func (p *Protocols) classes() (map[Class][]Tally, error) {
	classes := make(map[Class][]Tally)
	add := func(class Class, perCPU []Tally) {
		if Sum(perCPU).Packets > 0 {
			classes[class] = slices.Clone(perCPU)
		}
	}
	switch p.options.Variant {
	case Naive:
		return classes, eachHash(p.maps[protocolsMapNaiveTallies], 1, add)
	case PerCPU:
		slots, err := ReadArray[Tally](p.maps[protocolsMapPercpuTallies])
		if err != nil {
			return nil, err
		}
		for class, perCPU := range slots {
			add(Class(class), perCPU)
		}
	case Ultra:
		var slots []protocolsSlots // by CPU
		if err := p.maps[protocolsMapUltraTallies].Lookup(uint32(0), &slots); err != nil {
			return nil, err
		}
		perCPU := make([]Tally, len(slots))
		for class := range slots[0].ByClass {
			for cpu := range slots {
				perCPU[cpu] = tallyOf(slots[cpu].ByClass[class])
			}
			add(Class(class), perCPU)
		}
	}
	return classes, eachHash(p.maps[protocolsMapEthertypes], ebpf.MustPossibleCPU(), add)
}
