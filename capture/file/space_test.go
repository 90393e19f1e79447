package file

import (
	"testing"
	"time"
)

// A busy disk frees removed files late, and its sync takes long. The room of removed files counts
// as free until some time after the sync.
func TestSpaceFreesLate(t *testing.T) {
	t.Parallel()
	var s space
	start := time.Unix(1e9, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	s.update(0, at(0))
	s.add(nil, 1000, at(1))
	s.update(0, at(2))
	s.endSync(at(2), at(10))
	for _, test := range []struct {
		second int
		free   int64
	}{{10, 1000}, {14, 1000}, {16, 0}} {
		s.update(0, at(test.second))
		if free, _ := s.free(); free != test.free {
			t.Errorf("second %d: %d bytes are free, want %d", test.second, free, test.free)
		}
		if s.needsSync() {
			t.Errorf("second %d: it needs another sync", test.second)
		}
	}
}

// A file system reports written bytes late. Bytes that were granted count as written, also if fewer
// were granted than asked for: otherwise they would be granted again.
func TestPartialGrantCounts(t *testing.T) {
	t.Parallel()
	k := newKeeper(&Rotation{Keep: 3, MinFree: 1000}, func(error) {})
	k.free = func(onDisk) (int64, bool, error) { return 1150, true, nil }
	for _, want := range []int64{50, 0} {
		if granted, err := k.claim(&part{}, 500, 100); granted != want || err != nil {
			t.Errorf("%d bytes are granted, want %d, %v", granted, want, err)
		}
	}
}

// A file with packets that omits further ones asks for no room, for which a ring would remove an
// older file. One with only its header does: it waits for room, and has no packets to lose.
func TestFullFileClaimsNothing(t *testing.T) {
	t.Parallel()
	s := &stream{full: true, grant: func(bytes int64) (int64, error) {
		t.Errorf("it claims %d bytes", bytes)
		return bytes, nil
	}}
	s.header = 100
	s.size.Store(200)
	if err := s.insert([]byte("statistics")); err != nil || s.size.Load() != 200 {
		t.Errorf("it has %d bytes, %v", s.size.Load(), err)
	}
}
