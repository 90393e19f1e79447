package meter

import (
	"github.com/cilium/ebpf"
)

// read reads the tables in the reverse of the order in which a packet is counted. A packet that
// arrives meanwhile may be missing from a table, but only if it is missing from all tables read
// before it: so flows and sizes never add up to more than the classes.
func (p *Protocols) read(sizes bool) (c ProtocolCounts, err error) {
	if c.FlowCounts, err = p.flows.Read(); err != nil {
		return c, err
	}
	if sizes {
		slots, err := ReadArray[protocolsTally](p.maps[protocolsMapSizes])
		if err != nil {
			return c, err
		}
		for i, perCPU := range slots {
			c.Sizes[i] = sum(perCPU)
		}
	}
	c.Classes, err = p.classes()
	return c, err
}

func (p *Protocols) classes() (map[Class][]Tally, error) {
	classes := make(map[Class][]Tally)
	put := func(class uint32, perCPU []protocolsTally) {
		if sum(perCPU).Packets == 0 {
			return
		}
		for _, t := range perCPU {
			classes[Class(class)] = append(classes[Class(class)], Tally{t.Packets, t.Bytes})
		}
	}
	if p.options.Variant == Naive {
		return classes, eachHash(p.maps[protocolsMapNaiveTallies], 1, put)
	}
	if p.options.Variant == PerCPU {
		slots, err := ReadArray[protocolsTally](p.maps[protocolsMapPercpuTallies])
		if err != nil {
			return nil, err
		}
		for class, perCPU := range slots {
			put(uint32(class), perCPU)
		}
	} else {
		var perCPU []protocolsSlots
		if err := p.maps[protocolsMapUltraTallies].Lookup(uint32(0), &perCPU); err != nil {
			return nil, err
		}
		one := make([]protocolsTally, len(perCPU))
		for class := range perCPU[0].ByClass {
			for cpu := range perCPU {
				one[cpu] = perCPU[cpu].ByClass[class]
			}
			put(uint32(class), one)
		}
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	return classes, eachHash(p.maps[protocolsMapEthertypes], cpus, put)
}

func sum(perCPU []protocolsTally) (all Tally) {
	for _, t := range perCPU {
		all.Add(tallyOf(t))
	}
	return all
}
