package capture

import (
	"sync"
	"time"
)

// A rest measures how long a goroutine has slept. Any goroutine may ask for the total.
type rest struct {
	mu    sync.Mutex // held for a moment: a sleep that ends must be counted once, not twice or never
	slept time.Duration
	since time.Time // when the sleep that lasts began; zero = it is awake
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

// total has the sleep that lasts in it, and never decreases.
func (r *rest) total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return r.slept
	}
	return r.slept + time.Since(r.since)
}
