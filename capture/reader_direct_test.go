package capture

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mixedRings is a reader of rings with all that can be in them, the same for the same seed: packets
// of all lengths, losses, tags beside them, damaged records, and a perf ring besides shared ones.
func mixedRings(seed uint64, shared int, limit uint64) *reader {
	random := rand.New(rand.NewPCG(seed, 0))
	r := &reader{
		merge:    merge{horizon: math.MaxUint64},
		lost:     losses{sources: 2},
		ledger:   newLedger(2, limit),
		snapLen:  1500,
		weighted: seed%3 != 0,
		hasMore:  seed%3 == 0,
		laps:     new(laps),
		stop:     func() {},
	}
	var puts []func(Facts, []byte) bool
	for range shared {
		k, c := newFakeProgram(1 << 16)
		puts = append(puts, k.sample)
		r.merge.cursors = append(r.merge.cursors, c)
	}
	if seed%2 == 0 {
		k, c := newFakePerf(1 << 16)
		puts = append(puts, k.sample)
		r.merge.cursors = append(r.merge.cursors, c)
	}
	dropped := make([][2]uint64, len(puts))
	for i := range 1000 {
		cpu := random.IntN(len(puts))
		packet := packetOf(1+random.IntN(map[bool]int{true: 1500, false: 100}[random.IntN(10) == 0]), byte(i))
		f := sampleOf(packet, uint64(1000+i-random.IntN(2)))
		f.Source = uint16(random.IntN(2))
		f.ID = uint64(cpu)<<samplerLimitID_CPU_SHIFT | uint64(i)
		f.Weight, f.Verdict, f.Queue = uint32(random.IntN(3)), Verdict(random.IntN(5)), uint32(i)
		if random.IntN(10) == 0 {
			dropped[cpu][f.Source]++
		}
		f.Dropped = dropped[cpu][f.Source]
		switch random.IntN(50) {
		case 0:
			f.tagProtocol, f.tag = 0x0081, 7
		case 1:
			f.cookie++
		case 2:
			f.Source = 2
		case 3:
			f.WireLen--
		case 4:
			f.GSOSize = 1448
		case 5:
			f.To = 3
		}
		puts[cpu](f, packet)
	}
	return r
}

// What a Writer takes right out of the rings is, to the byte, what it gets by groups, and so are
// the accounts: whatever is in the rings, and wherever the capture ends.
func TestDirect(t *testing.T) {
	taken := 0
	for seed := range uint64(60) {
		limit := map[bool]uint64{true: 300, false: 0}[seed%5 == 0]
		var files [2]bytes.Buffer
		var counts [2]Accounts
		for i := range files {
			r := mixedRings(seed, int(1+seed%4), limit)
			r.merge.gather()
			w := testWriter(&files[i], WriterOptions{})
			packets := make([]Packet, groupSize)
			for r.merge.isReady() {
				if i == 0 {
					n, err := directTo([]Output{w}).take(r)
					if err != nil {
						t.Fatal(err)
					}
					taken += n
				}
				if err := w.Write(packets[:r.take(packets)]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.queue.end(); err != nil {
				t.Fatal(err)
			}
			counts[i] = r.ledger.counts
			if r.taken.Load() != counts[i].Total().Captured {
				t.Errorf("seed %d: %d packets were handed on, of %+v", seed, r.taken.Load(), counts[i])
			}
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Errorf("seed %d: the files differ, of %d and %d bytes", seed, files[0].Len(), files[1].Len())
		}
		if diff := cmp.Diff(counts[1], counts[0]); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
	if taken < 5_000 {
		t.Errorf("%d packets were taken directly", taken)
	}
}

// Only a Writer of pcapng that is the only output takes packets right out of the rings.
func TestDirectTo(t *testing.T) {
	ng, lines := testWriter(new(bytes.Buffer), WriterOptions{}), testWriter(new(bytes.Buffer), WriterOptions{Format: JSON})
	for i, test := range []struct {
		outputs []Output
		want    *Writer
	}{
		{[]Output{ng}, ng}, {[]Output{&File{writer: ng}}, ng}, {[]Output{ng, lines}, nil}, {[]Output{lines}, nil}, {[]Output{new(memory)}, nil}, {nil, nil},
	} {
		if got := directTo(test.outputs); got != test.want {
			t.Errorf("%d: another output than expected", i)
		}
	}
}
