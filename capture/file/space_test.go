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
