package xdp

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

const (
	// longestPause is the maximum retry interval of an interface. A change of its state ends the
	// pause: see stateOf.
	longestPause = time.Minute
	// firstPause is the first retry interval if another program was in the way, which may end at
	// any time. The interval doubles with each try.
	firstPause = 500 * time.Millisecond
	// clearedAfter is the retry interval for a try that detaches the programs above the interface,
	// after a refusal of the driver: stateOf may miss a change that makes the driver accept.
	clearedAfter = time.Hour
)

// Retries has the interfaces to which no program could be attached, by their indices, and when
// another attempt is due.
type Retries map[int]failure

// A failure is a failed attempt to attach to an interface.
type failure struct {
	state string // of the interface: see stateOf
	why   error
	pause time.Duration // from at to the next attempt
	at    time.Time     // of the last attempt
	tried time.Time     // of the last attempt at the driver, which ByDriver did not prevent
}

// stateOf returns the properties of an interface whose change may make another attempt succeed.
func stateOf(ifi Interface) string {
	return fmt.Sprint(ifi.Name, ifi.MTU, ifi.Mode, ifi.Programs)
}

// last returns the interface's last failure; stands is false if its state has changed since.
func (r Retries) last(ifi Interface) (before failure, stands bool) {
	before = r[ifi.Index]
	return before, before.why != nil && before.state == stateOf(ifi)
}

// TooEarly reports whether it is too early to try an interface again.
func (r Retries) TooEarly(ifi Interface) bool {
	before, stands := r.last(ifi)
	return stands && time.Since(before.at) < before.pause
}

// ByDriver returns the driver's refusal if it is recent; nil = there is none. Then the caller need
// not detach programs above the interface for another try.
func (r Retries) ByDriver(ifi Interface) error {
	before, stands := r.last(ifi)
	if !stands || !errors.Is(before.why, ErrNoNative) || time.Since(before.tried) >= clearedAfter {
		return nil
	}
	return before.why
}

// Add records why an attempt failed, and reports whether that is a new reason.
func (r Retries) Add(ifi Interface, why error) (isNew bool) {
	before, stands := r.last(ifi)
	now := failure{state: stateOf(ifi), why: why, pause: longestPause, tried: time.Now(), at: time.Now()}
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

// Keep removes all interfaces except the present ones.
func (r Retries) Keep(there map[int]bool) {
	maps.DeleteFunc(r, func(index int, _ failure) bool { return !there[index] })
}

// Age makes the failures older, for tests.
func (r Retries) Age(by time.Duration) {
	for index, before := range r {
		before.at, before.tried = before.at.Add(-by), before.tried.Add(-by)
		r[index] = before
	}
}
