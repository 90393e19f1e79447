package capture

import (
	"bytes"
	"math"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// filledRings is a reader of shared rings that are full: a packet in each of them in turn.
type filledRings struct {
	reader
	rings   []*sharedRing
	full    [][]byte // what was in them, as the reader changes it
	head    uint64
	Packets int // in all full rings
}

func fillRings(rings, size, packet int) *filledRings {
	f := &filledRings{reader: reader{
		merge:    merge{horizon: math.MaxUint64},
		lost:     losses{slots: 2},
		ledger:   newLedger(2, 0),
		weighted: true,
		snapLen:  MaxSnapLen,
		laps:     new(throttle.Laps),
	}}
	var programs []*fakeProgram
	for range rings {
		k, c := newFakeProgram(size)
		programs = append(programs, k)
		f.merge.cursors = append(f.merge.cursors, c)
		f.rings = append(f.rings, c.ring.(*sharedRing))
	}
	data := packetOf(packet, 1)
	for {
		s := sampleOf(data, uint64(1000+10*f.Packets))
		s.ID = uint64(f.Packets%rings)<<kernel.SamplerLimitID_CPU_SHIFT | uint64(f.Packets)
		if !programs[f.Packets%rings].sample(s, data) {
			break
		}
		f.Packets++
	}
	f.Packets -= f.Packets % rings
	f.head = programs[rings-1].shared.Head
	for _, k := range programs {
		f.full = append(f.full, bytes.Clone(k.data))
	}
	return f
}

// Refill puts everything into the rings again.
func (f *filledRings) Refill() {
	for i, r := range f.rings {
		copy(r.data, f.full[i])
		r.shared.Tail, r.shared.Head = 0, f.head
		r.limit, r.end, r.tail, r.head = 0, 0, 0, 0
	}
	f.clock = machine.Stamper{WallClock: f.clock.WallClock}
	f.merge.gather()
}

// Drain writes all that is in the rings, and returns how many packets there were.
func (f *filledRings) Drain(tb testing.TB, w DirectOutput) (n int) {
	packets := make([]Packet, groupSize)
	for f.merge.isReady() {
		must(tb, w.WriteDirect(func(e *Encoder, into *Batch) int {
			got := f.writePlain(e, into)
			n += got
			return got
		}))
		got := f.take(packets)
		must(tb, w.Write(packets[:got]))
		n += got
	}
	return n
}
