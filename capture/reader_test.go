package capture

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// filledRings is a reader of shared rings that are full: a packet in each of them in turn.
type filledRings struct {
	probe.Reader
	memory  *ring.Memory
	Packets int // in all full rings
}

func fillRings(rings, size, packet int) *filledRings {
	memory := ring.NewMemory(size, rings, 0)
	f := &filledRings{memory: memory, Reader: probe.Reader{
		Rings:    memory.Set,
		Lost:     ring.Losses{Slots: 2},
		Ledger:   probe.NewLedger(2, 0),
		Weighted: true,
		SnapLen:  MaxSnapLen,
	}}
	data := packetOf(packet, 1)
	for {
		s := ring.NewRecord(data, uint64(1000+10*f.Packets))
		s.ID = uint64(f.Packets%rings)<<kernel.SamplerLimitID_CPU_SHIFT | uint64(f.Packets)
		if !memory.Put(f.Packets%rings, s, data) {
			return f
		}
		f.Packets++
	}
}

// Refill puts everything into the rings again.
func (f *filledRings) Refill() {
	f.Clock = machine.Stamper{WallClock: f.Clock.WallClock}
	f.memory.Rewind()
}

// Drain writes all that is in the rings, and returns how many packets there were.
func (f *filledRings) Drain(tb testing.TB, w DirectOutput) (n int) {
	packets := make([]Packet, ring.GroupSize)
	for f.Rings.IsReady() {
		must(tb, w.WriteDirect(func(e *Encoder, into *Batch) int {
			got := writePlain(&f.Reader, e, into)
			n += got
			return got
		}))
		got := f.Take(packets)
		must(tb, w.Write(packets[:got]))
		n += got
	}
	return n
}
