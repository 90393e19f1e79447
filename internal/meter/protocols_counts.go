package meter

import "slices"

// ProtocolCounts are the counts of Protocols. The zero value has no packets.
type ProtocolCounts struct {
	// Classes are the packets per class and CPU. Naive has one slot for all CPUs. Classes without
	// packets are omitted.
	Classes map[Class][]Tally

	Sizes [protocolsLimitSIZES]Tally // see SizeNames; zero unless requested

	FlowCounts // zero unless requested
}

// SizeNames are the ranges of packet sizes that are counted separately, in bytes as XDP sees
// packets: from the Ethernet header on, with VLAN tags, without the checksum at the end.
var SizeNames = [protocolsLimitSIZES]string{"0-64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519-"}

// SizeOf is the index in SizeNames of a packet with so many bytes.
func SizeOf(bytes uint32) int {
	largest := []uint32{64, 127, 255, 511, 1023, 1518} // bytes of each range but the last
	i, _ := slices.BinarySearch(largest, bytes)
	return i
}

// CPUs returns how many CPUs are counted separately.
func (c ProtocolCounts) CPUs() int {
	for _, perCPU := range c.Classes {
		return len(perCPU)
	}
	return 0
}

// Class returns the packets of a class on all CPUs.
func (c ProtocolCounts) Class(class Class) Tally { return Sum(c.Classes[class]) }

// CPU returns the packets of a class on one CPU.
func (c ProtocolCounts) CPU(class Class, cpu int) Tally {
	if perCPU := c.Classes[class]; cpu < len(perCPU) {
		return perCPU[cpu]
	}
	return Tally{}
}

// Total returns the packets of all classes.
func (c ProtocolCounts) Total() (sum Tally) {
	for class := range c.Classes {
		sum.Add(c.Class(class))
	}
	return sum
}
