package follow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const start = 1_800_000_000_000_000_000

// A trial is two captures of the same packets.
type trial struct {
	ahead  time.Duration
	drift  float64
	delay  time.Duration // at most, of a packet to the other place, in either direction
	period time.Duration
	common int
	others int // packets of each that the other has at another time, or not at all
}

func (r *trial) sightings(rnd *rand.Rand) (reference, other Sightings) {
	id := uint64(0)
	add := func(to *Sightings, id uint64, at, delay float64, isOther bool) {
		if isOther {
			at += delay
			at += float64(r.ahead) + at*r.drift
		}
		to.Add(id*0x9e3779b97f4a7c15, start+int64(at))
	}
	for range r.common {
		id++
		at, delay := rnd.Float64()*float64(r.period), (2*rnd.Float64()-1)*float64(r.delay)
		add(&reference, id, at, 0, false)
		add(&other, id, at, delay, true)
	}
	for range r.others {
		id++
		add(&reference, id, rnd.Float64()*float64(r.period), 0, false)
		add(&other, id, rnd.Float64()*float64(r.period), 0, true)
		add(&other, id+1<<40, rnd.Float64()*float64(r.period), 0, true)
	}
	return reference, other
}

// A clock is found within its bounds, whatever the packets are, in each of a hundred tries.
func TestOf(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]trial{
		"ahead":         {37500 * time.Millisecond, 4e-6, 20 * time.Microsecond, time.Minute, 1000, 0},
		"behind":        {-37500 * time.Millisecond, -4e-6, 20 * time.Microsecond, time.Minute, 1000, 100},
		"equal":         {0, 0, 200 * time.Microsecond, 10 * time.Second, 1000, 0},
		"a day":         {3 * time.Hour, 30e-6, time.Millisecond, 24 * time.Hour, 5000, 500},
		"many packets":  {time.Second, 1e-6, 50 * time.Microsecond, time.Hour, 3 * maxSightings, 1000},
		"a few packets": {time.Second, 4e-6, 10 * time.Microsecond, time.Minute, 20, 2},
		"no time":       {time.Second, 0, 10 * time.Microsecond, time.Millisecond, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 100
			if r.common > 10000 {
				tries = 2
			}
			for try := range tries {
				reference, other := r.sightings(rand.New(rand.NewPCG(uint64(try), 1)))
				c, ok := reference.Of(&other)
				if !ok {
					t.Fatal("it is not found")
				}
				ahead := float64(r.ahead) + float64(c.Start-start)*r.drift
				if math.Abs(float64(c.Ahead)-ahead) > float64(c.Within) || math.Abs(c.Drift-r.drift) > c.DriftWithin {
					t.Errorf("try %d: %+v, want %v and %v", try, c, time.Duration(ahead), r.drift)
				}
				if c.Within > 3*r.delay || r.drift != 0 && c.Drift == 0 || c.Packets < min(r.common, maxSightings)*9/10 {
					t.Errorf("try %d: %+v of %d packets with %v", try, c, r.common, r.delay)
				}
				for _, at := range []float64{0, float64(r.period)} {
					there := start + int64(at+float64(r.ahead)+at*r.drift)
					if off := c.Correct(there) - start - int64(at); time.Duration(off).Abs() > c.Within {
						t.Errorf("try %d: a time is corrected to %v too much, the bound is %v", try, time.Duration(off), c.Within)
					}
				}
			}
		})
	}
}

// Captures with no or too few packets in common have no clock, and packets that were seen twice are
// not used, unless that was at one place.
func TestOfNothing(t *testing.T) {
	t.Parallel()
	var a, b Sightings
	if c, ok := a.Of(&b); ok {
		t.Errorf("%+v", c)
	}
	for i := range uint64(10) {
		a.Add(i, int64(i)*1e9)
		b.Add(i+100, int64(i)*1e9)
	}
	if c, ok := a.Of(&b); ok {
		t.Errorf("%+v", c)
	}
	for i := range uint64(10) {
		b.Add(i, int64(i)*1e9+7)
		b.Add(i, int64(i)*1e9+1000)
	}
	if c, ok := a.Of(&b); !ok || c.Ahead != 7 || c.Packets != 10 {
		t.Errorf("%+v, %v", c, ok)
	}
	for i := range uint64(8) {
		b.Add(i, 60e9)
	}
	if c, ok := a.Of(&b); ok {
		t.Errorf("%+v", c)
	}
}
