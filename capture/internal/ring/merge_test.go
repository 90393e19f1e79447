package ring

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// stamps takes all records that are ready, so many at a time at most, and returns their stamps.
func (s *Set) stamps(most int) (all []uint64) {
	packets := make([]packet.Packet, most)
	for s.IsReady() {
		for _, p := range packets[:s.Next(packets)] {
			all = append(all, uint64(p.Time))
		}
	}
	return all
}

// The records of many rings come out in the order of their stamps, and none is missing.
func TestMerge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	m := Set{}
	var want []uint64
	for range 33 {
		k, c := newFakePerf(1 << 16)
		now := uint64(0)
		for range random.IntN(200) {
			now += uint64(random.IntN(1000))
			want = append(want, now)
			packet := packetOf(60, 0)
			k.sample(NewRecord(packet, now), packet)
		}
		m.cursors = append(m.cursors, c)
	}
	slices.Sort(want)
	m.Gather(math.MaxUint64)
	got := m.stamps(GroupSize)
	if !slices.Equal(got, want) {
		t.Errorf("%d records went in, %d came out, not in order", len(want), len(got))
	}
}

// Only what is older than the horizon is ready, also when a ring that was empty gets older records.
func TestMergeHorizon(t *testing.T) {
	t.Parallel()
	early, onEarly := newFakePerf(4096)
	late, onLate := newFakePerf(4096)
	m := Set{cursors: []*cursor{onEarly, onLate}, horizon: 15}
	packet := packetOf(60, 0)
	put := func(k *fakePerf, ns uint64) { k.sample(NewRecord(packet, ns), packet) }
	var got []uint64
	take := func() {
		m.Gather(m.horizon)
		got = append(got, m.stamps(GroupSize)...)
	}
	put(late, 20)
	take()
	put(early, 10)
	put(early, 30)
	take()
	m.horizon = 25
	take()
	if !slices.Equal(got, []uint64{10, 20}) {
		t.Errorf("the stamps %v", got)
	}
}

// While a program is held up between the stamp of a record and its place in a ring, what other CPUs
// have sent since then waits, so that all stamps stay as they are. It waits neither for longer than
// holdTime nor until a ring is full.
func TestMergeHeld(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 0)
	const ms = uint64(time.Millisecond)
	for _, test := range []struct {
		name  string
		until uint64 // when the record that is held up is in its ring
		other int    // records of another CPU until then
		want  bool   // whether its place is in order
	}{
		{"for a moment", 101 * ms, 5, true},
		{"for long", 100*ms + uint64(holdTime), 10, true},
		{"for too long", 100*ms + 2*uint64(holdTime), 10, false},
		{"while another ring fills up", 110 * ms, 30, false}, // 30 of 152 bytes are more than half of 4096
	} {
		held, onHeld := newFakeProgram(4096)
		other, onOther := newFakeProgram(4096)
		m := Set{cursors: []*cursor{onHeld, onOther}}
		var got []uint64
		look := func(now uint64) {
			m.Gather(uint64(m.Complete(int64(now))))
			got = append(got, m.stamps(GroupSize)...)
		}
		look(100 * ms)
		held.shared.Filling = 1
		late := 100*ms + 1 // its stamp
		step := (test.until - 100*ms) / uint64(test.other)
		for now := 100*ms + step; now < test.until; now += step {
			other.sample(NewRecord(packet, now-uint64(promptTime)), packet)
			look(now)
		}
		held.sample(NewRecord(packet, late), packet)
		held.shared.Filling = 0
		look(test.until + ms)
		if inOrder := slices.IsSorted(got); inOrder != test.want || len(got) < test.other || !slices.Contains(got, late) {
			t.Errorf("%s: %d records, in order: %v, want %v", test.name, len(got), inOrder, test.want)
		}
	}
}

// The rings of perf beside shared ones, whose records these show, hold nothing back.
func TestMergePrompt(t *testing.T) {
	t.Parallel()
	_, onShared := newFakeProgram(4096)
	_, onPerf := newFakePerf(4096)
	m := Set{cursors: []*cursor{onShared, onPerf}}
	const now = int64(time.Second)
	if got := now - m.Complete(now); got != int64(SettleTime) {
		t.Errorf("with a ring of perf's alone %v are waited for, want %v", time.Duration(got), SettleTime)
	}
	onPerf.ring.(*perfRing).hasShared = true
	if got := now - m.Complete(now); got != int64(promptTime) {
		t.Errorf("with a ring of perf's that is shown %v are waited for, want %v", time.Duration(got), promptTime)
	}
}
