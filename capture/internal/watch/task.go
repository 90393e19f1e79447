package watch

import "sync"

// A task is a goroutine that works for a session until it is ended.
type task struct {
	ending sync.Once
	quit   chan struct{} // closed by End
	Done   chan struct{} // closed when the goroutine has returned
}

func newTask() task { return task{quit: make(chan struct{}), Done: make(chan struct{})} }

// End makes the goroutine return, and does not wait for it.
func (t *task) End() { t.ending.Do(func() { close(t.quit) }) }

// Close ends the goroutine and waits until it has returned. It may be called again.
func (t *task) Close() {
	t.End()
	<-t.Done
}
