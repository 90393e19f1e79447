package watch

import (
	"testing"
	"testing/synctest"
)

// Close returns only when the goroutine has ended.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Watch{task: newTask()}
		returned := false
		go func() {
			w.Close()
			returned = true
		}()
		<-w.quit
		if synctest.Wait(); returned {
			t.Error("it does not wait")
		}
		close(w.Done)
	})
}
