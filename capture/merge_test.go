package capture

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// stamps takes all records that are ready, so many at a time at most, and returns their stamps.
func (m *merge) stamps(most int) (all []uint64) {
	packets := make([]Packet, most)
	for m.isReady() {
		for _, p := range packets[:m.next(packets)] {
			all = append(all, uint64(p.Time))
		}
	}
	return all
}

// The records of many rings come out in the order of their stamps, and none is missing.
func TestMerge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	m := merge{}
	var want []uint64
	for range 33 {
		k, c := newFakePerf(1 << 16)
		now := uint64(0)
		for range random.IntN(200) {
			now += uint64(random.IntN(1000))
			want = append(want, now)
			packet := packetOf(60, 0)
			k.sample(sampleOf(packet, now), packet)
		}
		m.cursors = append(m.cursors, c)
	}
	slices.Sort(want)
	m.horizon = math.MaxUint64
	m.gather()
	got := m.stamps(groupSize)
	same(t, want, got)
}

// Only what is older than the horizon is ready, also when a ring that was empty gets older records.
func TestMergeHorizon(t *testing.T) {
	t.Parallel()
	early, onEarly := newFakePerf(4096)
	late, onLate := newFakePerf(4096)
	m := merge{cursors: []*cursor{onEarly, onLate}, horizon: 15}
	packet := packetOf(60, 0)
	put := func(k *fakePerf, ns uint64) { k.sample(sampleOf(packet, ns), packet) }
	var got []uint64
	take := func() {
		m.gather()
		got = append(got, m.stamps(groupSize)...)
	}
	put(late, 20)
	take()
	put(early, 10)
	put(early, 30)
	take()
	m.horizon = 25
	take()
	same(t, []uint64{10, 20}, got)
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
		m := merge{cursors: []*cursor{onHeld, onOther}}
		var got []uint64
		look := func(now uint64) {
			m.horizon = uint64(m.complete(int64(now)))
			m.gather()
			got = append(got, m.stamps(groupSize)...)
		}
		look(100 * ms)
		held.shared.Filling = 1
		late := 100*ms + 1 // its stamp
		step := (test.until - 100*ms) / uint64(test.other)
		for now := 100*ms + step; now < test.until; now += step {
			other.sample(sampleOf(packet, now-uint64(promptTime)), packet)
			look(now)
		}
		held.sample(sampleOf(packet, late), packet)
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
	m := merge{cursors: []*cursor{onShared, onPerf}}
	const now = int64(time.Second)
	if got := now - m.complete(now); got != int64(settleTime) {
		t.Errorf("with a ring of perf's alone %v are waited for, want %v", time.Duration(got), settleTime)
	}
	onPerf.ring.(*perfRing).isShown = true
	if got := now - m.complete(now); got != int64(promptTime) {
		t.Errorf("with a ring of perf's that is shown %v are waited for, want %v", time.Duration(got), promptTime)
	}
}

// A damaged record is rejected once, and what follows is not held up.
func TestMergeRejects(t *testing.T) {
	t.Parallel()
	k, c := newFakePerf(4096)
	packet := packetOf(60, 1)
	bad := sampleOf(packet, 1)
	bad.source, bad.cookie = 1, 0
	k.sample(bad, packet)
	k.sample(sampleOf(packet, 2), packet)
	r := &reader{merge: merge{cursors: []*cursor{c}, horizon: math.MaxUint64}, lost: losses{slots: 2}, ledger: newLedger(2, 0)}
	r.merge.gather()
	packets := make([]Packet, groupSize)
	if n := r.take(packets); n != 1 || packets[0].Time != 2 || r.merge.isReady() {
		t.Errorf("%d packets, the first %+v", n, packets[0].Facts)
	}
	same(t, Accounts{{Captured: 1, Bytes: 60}, {Invalid: 1}}, r.ledger.counts)
}
