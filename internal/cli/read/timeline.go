package read

import (
	"math"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A timeline counts packets in steps of time of one length. The steps get longer with the time of
// the packets, so that there are never more than maxSteps.
type timeline struct {
	step       time.Duration
	steps      map[int64]timeStep // by number: the time since the epoch, in steps
	first, end int64              // numbers of the first step, and of the one after the last
}

// A timeStep has the packets of a step of time.
type timeStep struct {
	meter.Tally
	lost uint64 // before these packets, as the file says
}

const maxSteps = 120

// add counts a packet.
func (t *timeline) add(ns int64, bytes uint32, lost uint64) {
	const most = 1 << 62 // 146 years: the number of a step times its length is not too large then
	if ns = min(max(ns, -most), most); t.steps == nil {
		t.step, t.steps = time.Microsecond, make(map[int64]timeStep)
		t.first = number(ns, t.step)
		t.end = t.first + 1
	}
	for n := number(ns, t.step); ; n = number(ns, t.step) {
		first, end := min(t.first, n), max(t.end, n+1)
		if end-first <= maxSteps {
			t.first, t.end = first, end
			t.count(n, timeStep{meter.Tally{Packets: 1, Bytes: uint64(bytes)}, lost})
			return
		}
		t.lengthen()
	}
}

func (t *timeline) count(n int64, more timeStep) {
	s := t.steps[n]
	s.Add(more.Tally)
	s.lost += more.lost
	t.steps[n] = s
}

// lengthen joins steps to longer ones, which begin at round times.
func (t *timeline) lengthen() {
	old, step := t.steps, t.step
	t.step, t.steps = longer(step), make(map[int64]timeStep, len(old))
	t.first, t.end = math.MaxInt64, math.MinInt64
	for n, s := range old {
		n = number(n*int64(step), t.step)
		t.first, t.end = min(t.first, n), max(t.end, n+1)
		t.count(n, s)
	}
}

// longer is the next longer step, of which each is a multiple.
func longer(step time.Duration) time.Duration {
	for _, next := range []time.Duration{
		10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
		5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
	} {
		if next > step {
			return next
		}
	}
	return 8 * step
}

// number is the number of the step that a time is in. Times before 1970 have negative ones.
func number(ns int64, step time.Duration) int64 {
	n := ns / int64(step)
	if ns%int64(step) < 0 {
		n--
	}
	return n
}

// all calls each with every step from the first to the last, and its beginning.
func (t *timeline) all(each func(begin time.Time, s timeStep)) {
	for n := t.first; n < t.end; n++ {
		each(time.Unix(0, n*int64(t.step)), t.steps[n])
	}
}
