package meter

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"unsafe"

	"github.com/cilium/ebpf"
)

// A Flow is one direction of a conversation. The ports are 0 where the protocol has none, and in
// all fragments of a packet but the first.
type Flow struct {
	Class               Class // of IPv4 or IPv6
	Source, Destination netip.AddrPort
}

// FlowOverflow counts what ProtocolCounts.Flows lacks: the flows that were pushed out by newer
// ones, and their packets until then. It is cumulative; while packets arrive it may be a few too
// low.
type FlowOverflow struct {
	Flows uint64 // a flow that was pushed out twice counts twice
	Tally
}

// read reads everything that the maps hold.
func (m *protocolMaps) read(sizes, flows bool) (c ProtocolCounts, err error) {
	if c.Classes, err = m.classes(); err != nil {
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
	if flows {
		c.Flows, c.Overflow, err = m.flows()
	}
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

// flows reads the table of flows, and computes what was pushed out of it.
func (m *protocolMaps) flows() (map[Flow]Tally, FlowOverflow, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, FlowOverflow{}, err
	}
	var all []protocolsOverflow
	if err := m.flowSums.Lookup(uint32(0), &all); err != nil {
		return nil, FlowOverflow{}, err
	}
	flows := make(map[Flow]Tally)
	var kept Tally
	err = eachHash(m.flow, cpus, func(key protocolsFlow, perCPU []protocolsTally) {
		t := sum(perCPU)
		flows[newFlow(key)] = t
		kept.Add(t)
	})
	var inserted uint64
	var ever Tally
	for _, o := range all {
		inserted += o.Inserted
		ever.Add(Tally{o.All.Packets, o.All.Bytes})
	}
	return flows, FlowOverflow{
		Flows: above(inserted, uint64(len(flows))),
		Tally: Tally{above(ever.Packets, kept.Packets), above(ever.Bytes, kept.Bytes)},
	}, err
}

// above returns a - b, or 0 where b is greater because packets came between the readings of both.
func above(a, b uint64) uint64 { return max(a, b) - b }

func sum(perCPU []protocolsTally) (all Tally) {
	for _, t := range perCPU {
		all.Add(Tally{t.Packets, t.Bytes})
	}
	return all
}

func newFlow(f protocolsFlow) Flow {
	address := func(words [2]uint64) netip.Addr {
		bytes := *(*[16]byte)(unsafe.Pointer(&words)) // in network byte order, as in the packet
		if Class(f.Class).Family() == "ipv4" {
			return netip.AddrFrom4([4]byte(bytes[:4]))
		}
		return netip.AddrFrom16(bytes)
	}
	port := func(p uint16) uint16 {
		return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, p))
	}
	return Flow{
		Class:       Class(f.Class),
		Source:      netip.AddrPortFrom(address(f.Source), port(f.SourcePort)),
		Destination: netip.AddrPortFrom(address(f.Destination), port(f.DestinationPort)),
	}
}

// eachHash calls f for each entry of a hash map whose values have this many slots. An entry that is
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
