package throttle

import (
	"sync"
	"time"
)

// A Rest measures how long a goroutine has slept. Any goroutine may call Total.
type Rest struct {
	mu    sync.Mutex // so that a sleep that ends during a call of Total is counted exactly once
	slept time.Duration
	since time.Time // when the current sleep began; zero = awake
}

// Begin records that the goroutine is about to sleep.
func (r *Rest) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

// End records that it is awake again.
func (r *Rest) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slept += time.Since(r.since)
	r.since = time.Time{}
}

// Total returns how long it has slept. It includes the current sleep, and never decreases.
func (r *Rest) Total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return r.slept
	}
	return r.slept + time.Since(r.since)
}
