package xdp

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

const (
	// longestPause is the time after which an interface that was refused is tried again. It is
	// tried earlier if its state changes: see stateOf.
	longestPause = time.Minute
	// firstPause is the pause where another program was in the way, which may go at any time. The
	// pause doubles each time.
	firstPause = 500 * time.Millisecond
	// clearedAfter is how long a driver's refusal spares the captures above the interface. After it
	// one try detaches them again, because stateOf may miss why the driver would accept now.
	clearedAfter = time.Hour
)

// Refusals are the interfaces that took no program, by their indices.
type Refusals map[int]refusal

// A refusal is why an interface took no program.
type refusal struct {
	state string // of the interface, as stateOf has it
	why   error
	pause time.Duration // from at to the next attempt
	at    time.Time     // of the last attempt
	tried time.Time     // of the last attempt that ByDriver did not end
}

// stateOf has the properties whose change may help an interface that could not be captured before.
func stateOf(ifi Interface) string {
	return fmt.Sprint(ifi.Name, ifi.MTU, ifi.Mode, ifi.Programs)
}

// of returns why an interface could not be captured, if its state is still the same.
func (r Refusals) of(ifi Interface) (before refusal, stands bool) {
	before = r[ifi.Index]
	return before, before.why != nil && before.state == stateOf(ifi)
}

// Stand reports whether it is too early to try an interface again.
func (r Refusals) Stand(ifi Interface) bool {
	before, stands := r.of(ifi)
	return stands && time.Since(before.at) < before.pause
}

// ByDriver returns the driver's refusal if it is recent: then programs above the interface need not
// be detached to try again; nil = there is none.
func (r Refusals) ByDriver(ifi Interface) error {
	before, stands := r.of(ifi)
	if !stands || !errors.Is(before.why, ErrNoNative) || time.Since(before.tried) >= clearedAfter {
		return nil
	}
	return before.why
}

// Add notes why an interface could not be captured, and reports whether that is a new reason.
func (r Refusals) Add(ifi Interface, why error) (isNew bool) {
	before, stands := r.of(ifi)
	now := refusal{state: stateOf(ifi), why: why, pause: longestPause, tried: time.Now(), at: time.Now()}
	if errors.Is(why, ErrBusy) || errors.Is(why, ErrBelow) {
		now.pause = firstPause
		if stands {
			now.pause = min(2*before.pause, longestPause)
		}
	}
	isNew = r[ifi.Index].why == nil || r[ifi.Index].why.Error() != why.Error()
	if !isNew && errors.Is(why, r[ifi.Index].why) { // ByDriver has returned it
		now.tried = r[ifi.Index].tried
	}
	r[ifi.Index] = now
	return isNew
}

// Keep forgets all interfaces except the present ones.
func (r Refusals) Keep(there map[int]bool) {
	maps.DeleteFunc(r, func(index int, _ refusal) bool { return !there[index] })
}

// Age makes the refusals older, for tests.
func (r Refusals) Age(by time.Duration) {
	for index, before := range r {
		before.at, before.tried = before.at.Add(-by), before.tried.Add(-by)
		r[index] = before
	}
}
