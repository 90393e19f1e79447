package ring

import (
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// Losses holds what the last record of each CPU and slot said about lost packets. It is not kept by
// ring, because a CPU may have several rings, at once or one after the other.
type Losses struct {
	Slots int
	byCPU [][]uint64
}

// Since returns how many packets of a slot were lost on a packet's CPU since the previous packet of
// both. f.Dropped is still the program's cumulative count. Call it once for each packet, in the
// order of time.
func (l *Losses) Since(slot uint16, f *packet.Facts) uint64 {
	cpu := int(f.ID >> kernel.SamplerLimitID_CPU_SHIFT)
	if cpu >= len(l.byCPU) {
		l.add(cpu)
	}
	last := &l.byCPU[cpu][slot]
	before := *last
	*last = max(before, f.Dropped) // less than before only in a damaged record
	return *last - before
}

// Begin notes what programs that had a slot before its present source have lost on each CPU: those
// packets are missing before none of this source's.
func (l *Losses) Begin(slot int, byCPU []uint64) {
	for cpu, lost := range byCPU {
		if lost > 0 {
			l.add(cpu)
			l.byCPU[cpu][slot] = lost
		}
	}
}

// add adds a CPU.
func (l *Losses) add(cpu int) {
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.Slots))
	}
}
