package capture

import (
	"sync"
	"time"
)

// A rest measures how long a goroutine has slept. Any goroutine may ask for the total.
type rest struct {
	mu    sync.Mutex // so that a sleep that ends during a call of total is counted exactly once
	slept time.Duration
	since time.Time // when the current sleep began; zero = awake
}

func (r *rest) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

func (r *rest) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slept += time.Since(r.since)
	r.since = time.Time{}
}

// total includes the current sleep, and never decreases.
func (r *rest) total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return r.slept
	}
	return r.slept + time.Since(r.since)
}
