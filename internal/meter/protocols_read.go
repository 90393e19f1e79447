package meter

import (
	"errors"

	"github.com/cilium/ebpf"
)

// read reads the tables in the reverse of the order in which a packet is counted. A packet that
// arrives meanwhile may be missing from a table, but only if it is missing from all tables read
// before it: so flows and sizes never add up to more than the classes.
func (m *protocolMaps) read(sizes bool) (c ProtocolCounts, err error) {
	if c.FlowCounts, err = m.flows.Read(); err != nil {
		return c, err
	}
	if sizes {
		slots, err := readArray[protocolsTally](m.size)
		if err != nil {
			return c, err
		}
		for i, perCPU := range slots {
			c.Sizes[i] = sum(perCPU)
		}
	}
	c.Classes, err = m.classes()
	return c, err
}

func (m *protocolMaps) classes() (map[Class][]Tally, error) {
	classes := make(map[Class][]Tally)
	put := func(class uint32, perCPU []protocolsTally) {
		if sum(perCPU).Packets == 0 {
			return
		}
		for _, t := range perCPU {
			classes[Class(class)] = append(classes[Class(class)], Tally{t.Packets, t.Bytes})
		}
	}
	if m.variant == Naive {
		return classes, eachHash(m.naive, 1, put)
	}
	if m.variant == PerCPU {
		slots, err := readArray[protocolsTally](m.percpu)
		if err != nil {
			return nil, err
		}
		for class, perCPU := range slots {
			put(uint32(class), perCPU)
		}
	} else {
		var perCPU []protocolsSlots
		if err := m.ultra.Lookup(uint32(0), &perCPU); err != nil {
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
	return classes, eachHash(m.ethertypes, cpus, put)
}

func sum(perCPU []protocolsTally) (all Tally) {
	for _, t := range perCPU {
		all.Add(tallyOf(t))
	}
	return all
}

// eachHash calls f for each entry of a hash map with the given slots per value. An entry that is
// inserted or deleted meanwhile may be missing.
func eachHash[K, V any](m *ebpf.Map, slots int, f func(K, []V)) error {
	const chunk = 1024
	keys, values := make([]K, chunk), make([]V, chunk*slots)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i, key := range keys[:n] {
			f(key, values[i*slots:(i+1)*slots])
		}
		if err != nil {
			return nil
		}
	}
}
