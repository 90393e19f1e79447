package read

import (
	"math"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A timeline counts packets in steps of time of equal length. When packets need more than maxSteps,
// it makes the steps longer.
type timeline struct {
	step       time.Duration
	steps      map[int64]timeStep // by number: the time since the epoch, divided by step
	first, end int64              // numbers of the first step, and of the one after the last
}

// A timeStep has the packets of a step of time.
type timeStep struct {
	meter.Tally
	lost uint64 // packets that were lost before these, by the file
}

const maxSteps = 120

// add counts a packet. ns is its time since 1970, which is limited to 146 years before or after, so
// that the number of a step times its length does not overflow.
func (t *timeline) add(ns int64, bytes uint32, lost uint64) {
	const limit = 1 << 62
	ns = min(max(ns, -limit), limit)
	if t.steps == nil {
		t.step, t.steps = time.Microsecond, make(map[int64]timeStep)
		t.first = stepNumber(ns, t.step)
		t.end = t.first + 1
	}
	for {
		n := stepNumber(ns, t.step)
		first, end := min(t.first, n), max(t.end, n+1)
		if end-first <= maxSteps {
			t.first, t.end = first, end
			t.addTo(n, timeStep{meter.Tally{Packets: 1, Bytes: uint64(bytes)}, lost})
			return
		}
		t.lengthen()
	}
}

func (t *timeline) addTo(n int64, more timeStep) {
	s := t.steps[n]
	s.Add(more.Tally)
	s.lost += more.lost
	t.steps[n] = s
}

// lengthen merges the steps into longer ones, which begin at round times.
func (t *timeline) lengthen() {
	old, step := t.steps, t.step
	t.step, t.steps = nextLength(step), make(map[int64]timeStep, len(old))
	t.first, t.end = math.MaxInt64, math.MinInt64
	for n, s := range old {
		n = stepNumber(n*int64(step), t.step)
		t.first, t.end = min(t.first, n), max(t.end, n+1)
		t.addTo(n, s)
	}
}

// stepLengths are the lengths up to a day, each a multiple of the one before it.
var stepLengths = []time.Duration{
	time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// nextLength is the next longer length of a step: above a day, eight times as long.
func nextLength(step time.Duration) time.Duration {
	if i := slices.Index(stepLengths, step) + 1; i > 0 && i < len(stepLengths) {
		return stepLengths[i]
	}
	return 8 * step
}

// stepNumber is the number of the step at a time, rounded down: it is negative before 1970.
func stepNumber(ns int64, step time.Duration) int64 {
	n := ns / int64(step)
	if ns%int64(step) < 0 {
		n--
	}
	return n
}

// each calls f with every step from the first to the last, and its beginning.
func (t *timeline) each(f func(begin time.Time, s timeStep)) {
	for n := t.first; n < t.end; n++ {
		f(time.Unix(0, n*int64(t.step)), t.steps[n])
	}
}
