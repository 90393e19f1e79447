package read

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// Each packet is in the step of its time, whatever the order and the range of the times.
func TestTimeline(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{0, time.Microsecond, time.Millisecond, 3 * time.Second, time.Hour, 400 * 24 * time.Hour, 140 * 365 * 24 * time.Hour} {
		var line timeline
		var times []int64
		for i := range 500 {
			ns := rand.Int64N(2*int64(span)+1) - int64(span) // also before 1970
			times = append(times, ns)
			line.add(ns, 100, uint64(i%2))
		}
		var sum meter.Tally
		var lost, wrong uint64
		steps := 0
		line.each(func(begin time.Time, s timeStep) {
			sum.Add(s.Tally)
			lost += s.lost
			steps++
			for _, ns := range times {
				if at := time.Unix(0, ns); !at.Before(begin) && at.Before(begin.Add(line.step)) {
					s.Packets--
				}
			}
			if s.Packets != 0 {
				wrong++
			}
		})
		if sum != (meter.Tally{Packets: 500, Bytes: 50_000}) || lost != 250 || steps > maxSteps || wrong > 0 {
			t.Errorf("%v: %+v in %d steps of %v, %d lost, %d steps are wrong", span, sum, steps, line.step, lost, wrong)
		}
		if span >= time.Millisecond && steps < maxSteps/12 {
			t.Errorf("%v: only %d steps of %v", span, steps, line.step)
		}
	}
}

// Times that only a damaged file has are counted, too.
func TestTimelineOfDamagedTimes(t *testing.T) {
	t.Parallel()
	var line timeline
	for _, ns := range []int64{0, math.MinInt64, math.MaxInt64, 1} {
		line.add(ns, 1, 0)
	}
	sum := uint64(0)
	line.each(func(_ time.Time, s timeStep) { sum += s.Packets })
	if sum != 4 {
		t.Error(sum)
	}
}
