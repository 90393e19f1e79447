package ring

import (
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// Losses converts the programs' running counts of lost packets into the losses since the packet
// before. It keeps the last count of each CPU and slot. The counts do not belong to a ring, because
// a CPU may have several rings, at once or one after the other.
type Losses struct {
	Slots int        // length of the programs' arrays
	byCPU [][]uint64 // by CPU and slot: the count in the last record
}

// Since returns how many packets of a slot were lost on a packet's CPU since the slot's previous
// packet on that CPU. f.Dropped must be the cumulative count that the program wrote. Call it once
// for each packet, in the order of time.
func (l *Losses) Since(slot uint16, f *packet.Facts) uint64 {
	cpu := int(f.ID >> kernel.SamplerLimitID_CPU_SHIFT)
	if cpu >= len(l.byCPU) {
		l.grow(cpu)
	}
	last := &l.byCPU[cpu][slot]
	before := *last
	*last = max(before, f.Dropped) // f.Dropped is less than before only in a damaged record
	return *last - before
}

// Begin sets the counts of a slot when a new source gets it: byCPU are the packets that the slot's
// earlier sources had lost on each CPU.
func (l *Losses) Begin(slot int, byCPU []uint64) {
	for cpu, lost := range byCPU {
		if lost > 0 {
			l.grow(cpu)
			l.byCPU[cpu][slot] = lost
		}
	}
}

// grow makes room for the CPUs up to this one.
func (l *Losses) grow(cpu int) {
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.Slots))
	}
}
