package machine

import (
	"testing"
	"time"
)

// ThreadTime grows while the thread works.
func TestThreadTime(t *testing.T) {
	t.Parallel()
	start, err := ThreadTime()
	must(t, err)
	for now := start; now < start+time.Millisecond; {
		if now, err = ThreadTime(); err != nil {
			t.Fatal(err)
		}
	}
}
