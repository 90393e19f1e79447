package throttle

import (
	"math"
	"testing"
	"time"
)

// Each bottleneck of an adaptive session raises the strain, and does not if there is room.
func TestStrain(t *testing.T) {
	t.Parallel()
	const queue = 256 << 20
	for _, test := range []struct {
		name    string
		change  func(c *Counters) // of the last reading in three seconds
		maxRate uint64
		waiting int64 // in the queue, at all readings but the last
		want    strain
	}{
		{"idle", nil, 0, 0, load(0.13)},
		{"busy with more packets", func(c *Counters) {
			c.Rested -= 85 * time.Millisecond
			c.Pool, c.Kept, c.Taken = c.Pool+10_000, c.Kept+1000, c.Taken+1000
		}, 0, 0, load(1.27)},
		{"busy with as many packets", func(c *Counters) { c.Rested -= 85 * time.Millisecond }, 0, 0, load(0.9)},
		{"losing half", func(c *Counters) { c.Lost += 50 }, 0, 0, load(2.67)},
		{"a reader that waits", func(c *Counters) { c.Rested -= 90 * time.Millisecond; c.Lost += 100 }, 0, 0, load(0.9)},
		{"below the rate", nil, 10_000, 0, load(0.13)},
		{"at twice the rate", nil, 500, 0, load(2.11)},
		{"a queue that stays so", nil, 0, queue / 16, strain{lasting: 0.13, calm: 1}},
		{"room in the queue", nil, 0, queue/16 - 1, load(0.13)},
		{"an output that keeps up", nil, 0, queue / 8, strain{lasting: 0.13, calm: 1.11}},
		{"a queue that grows", func(c *Counters) { c.Queues[0].Added++ }, 0, queue / 8, strain{lasting: 1.11, calm: 1.11}},
		{"a queue that is full", nil, 0, queue, strain{lasting: 0.13, passing: 0.97, calm: 1.11}},
	} {
		var h history
		for i := range 31 {
			at, n := time.Duration(i)*time.Second/10, uint64(i)*100
			c := Counters{At: time.Time{}.Add(time.Hour + at), Pool: 10 * n, Kept: n, Taken: n, Rested: at * 9 / 10}
			c.Queues = []Queue{{Added: int64(n)*10_000 + test.waiting, Written: int64(n) * 10_000, Limit: queue}}
			if i == 30 && test.change != nil {
				test.change(&c)
			}
			h.add(c)
		}
		got := h.load(Options{MaxRate: test.maxRate}, 10)
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.01 }
		if !near(got.lasting, test.want.lasting) || !near(got.passing, test.want.passing) || !near(got.calm, test.want.calm) {
			t.Errorf("%s: %+.2f, want %+v", test.name, got, test.want)
		}
	}
}

// load is a lasting strain.
func load(x float64) strain { return strain{lasting: x, calm: x} }

// The rate settles within a second if the load is proportional to the packets, stays there, and
// goes back to every packet when there is room.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, every := range []float64{0.5, 1.1, 3, 50, 7000} { // load with every packet
		p := pace{oneIn: 1, enough: 1}
		for range 10 {
			p.update(load(every / float64(p.oneIn)))
		}
		settled := p.oneIn
		if load := every / float64(settled); load > 1 || load < 0.4 && settled > 1 {
			t.Errorf("load %.1f: one of %d makes it %.2f", every, settled, load)
		}
		for range 100 {
			p.update(load(every / float64(p.oneIn)))
			if load := every / float64(p.oneIn); load > 1 {
				t.Fatalf("load %.1f: one of %d was enough, and then one of %d makes it %.2f", every, settled, p.oneIn, load)
			}
		}
		for n := 0; p.oneIn > 1; n++ {
			p.update(load(0.5 / float64(p.oneIn)))
			if n == 100 {
				t.Fatalf("load 0.5: one of %d is kept, after 10 s", p.oneIn)
			}
		}
	}
}
