package capture

import (
	"bytes"
	"math"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/laps"
	"github.com/xdpcap/xdpcap/internal/clock"
)

// filledRings is a reader of shared rings that are full: a packet in each of them in turn.
type filledRings struct {
	reader
	rings   []*sharedRing
	full    [][]byte // what was in them, as the reader changes it
	head    uint64
	packets int
}

func fillRings(rings, size, packet int) *filledRings {
	f := &filledRings{reader: reader{
		merge:    merge{horizon: math.MaxUint64},
		lost:     losses{slots: 2},
		ledger:   newLedger(2, 0),
		weighted: true,
		snapLen:  MaxSnapLen,
		laps:     new(laps.Laps),
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
		s := sampleOf(data, uint64(1000+10*f.packets))
		s.ID = uint64(f.packets%rings)<<samplerLimitID_CPU_SHIFT | uint64(f.packets)
		if !programs[f.packets%rings].sample(s, data) {
			break
		}
		f.packets++
	}
	f.packets -= f.packets % rings
	f.head = programs[rings-1].shared.Head
	for _, k := range programs {
		f.full = append(f.full, bytes.Clone(k.data))
	}
	return f
}

// refill puts everything into the rings again.
func (f *filledRings) refill() {
	for i, r := range f.rings {
		copy(r.data, f.full[i])
		r.shared.Tail, r.shared.Head = 0, f.head
		r.limit, r.end, r.tail, r.head = 0, 0, 0, 0
	}
	f.clock = clock.Stamper{Wall: f.clock.Wall}
}

// drain writes all that is in the rings, and returns how many packets there were.
func (f *filledRings) drain(tb testing.TB, w DirectOutput, direct bool) (n int) {
	packets := make([]Packet, groupSize)
	for f.merge.isReady() {
		if direct {
			err := w.WriteDirect(func(e *Encoder, into *Batch) int {
				got := f.writePlain(e, into)
				n += got
				return got
			})
			must(tb, err)
		}
		got := f.take(packets)
		must(tb, w.Write(packets[:got]))
		n += got
	}
	return n
}
