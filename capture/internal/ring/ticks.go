package ring

import "github.com/xdpcap/xdpcap/internal/machine"

// ticks finds the stamp up to which the order of packets is final if their stamps are ticks of the
// kernel's clock. nil is for other stamps.
type ticks struct{ last int64 } // CLOCK_MONOTONIC ns

// before returns the last tick at or before the time `until`, in CLOCK_MONOTONIC ns. All records
// from before that tick have arrived: later records have the stamp of this tick or of a later one.
// If the kernel's last tick is later than `until`, it returns the same tick as the previous call.
func (t *ticks) before(until int64) int64 {
	if t == nil {
		return until
	}
	if tick, err := machine.LastTick(); err == nil && tick <= until {
		t.last = tick
	}
	return t.last
}
