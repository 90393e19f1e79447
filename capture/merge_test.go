package capture

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stamps takes all records that are ready, so many at a time at most, and returns their stamps.
func (m *merge) stamps(most int) (all []uint64) {
	for m.isReady() {
		for _, r := range m.next(most) {
			all = append(all, r.TimeNs)
		}
	}
	return all
}

// The records of many rings come out in the order of their stamps, and none is missing.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	m := merge{sources: 1, reject: func(int) { t.Error("a record was rejected") }}
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
	got := m.stamps(math.MaxInt)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Only what is older than the horizon is ready, also when a ring that was empty gets older records.
func TestMergeHorizon(t *testing.T) {
	early, onEarly := newFakePerf(4096)
	late, onLate := newFakePerf(4096)
	m := merge{cursors: []*cursor{onEarly, onLate}, horizon: 15, sources: 1}
	packet := packetOf(60, 0)
	put := func(k *fakePerf, ns uint64) { k.sample(sampleOf(packet, ns), packet) }
	var got []uint64
	take := func() {
		m.gather()
		got = append(got, m.stamps(math.MaxInt)...)
	}
	put(late, 20)
	take()
	put(early, 10)
	put(early, 30)
	take()
	m.horizon = 25
	take()
	if diff := cmp.Diff([]uint64{10, 20}, got); diff != "" {
		t.Error(diff)
	}
}

// A damaged record is rejected once, and what follows is not held up.
func TestMergeRejects(t *testing.T) {
	k, c := newFakePerf(4096)
	var rejected []int
	m := merge{cursors: []*cursor{c}, horizon: math.MaxUint64, sources: 2, reject: func(source int) { rejected = append(rejected, source) }}
	packet := packetOf(60, 1)
	bad := sampleOf(packet, 1)
	bad.Source, bad.Cookie = 1, 0
	k.sample(bad, packet)
	k.sample(sampleOf(packet, 2), packet)
	m.gather()
	if got := m.stamps(math.MaxInt); !slices.Equal(got, []uint64{2}) {
		t.Errorf("the records %d", got)
	}
	if diff := cmp.Diff([]int{1}, rejected); diff != "" {
		t.Error(diff)
	}
}
