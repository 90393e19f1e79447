package capture

import (
	"testing"
	"time"
)

// Each thing that can limit an adaptive session raises the load, and none of them does where there
// is room.
func TestLoad(t *testing.T) {
	const second = time.Second
	idle := workload{elapsed: second, rested: 900 * time.Millisecond, pool: 1000, kept: 100}
	full := func(waiting int64) workload {
		w := idle
		w.queues = []queueWork{{added: 100, written: 50, waiting: waiting, limit: 1000}}
		return w
	}
	busy, losing, stalled := idle, idle, idle
	busy.rested = 0
	losing.kept, losing.lost = 100, 50
	stalled.kept, stalled.lost = 100, 100
	for _, test := range []struct {
		name      string
		work      workload
		maxRate   uint64
		low, high float64
	}{
		{"idle", idle, 0, 0.1, 0.2},
		{"busy", busy, 0, 1.3, 1.4},
		{"losing half", losing, 0, 2.6, 2.7},
		{"losing all", stalled, 0, 10, 100},
		{"below the rate", idle, 1000, 0.1, 0.2},
		{"at twice the rate", idle, 50, 2.1, 2.2},
		{"room in the queue", full(50), 0, 0.1, 0.2},
		{"a queue that is to stay so", full(100), 0, 0.9, 0.9},
		{"a queue that fills up", full(500), 0, 3, 3},
	} {
		if got := test.work.load(&Options{MaxRate: test.maxRate}, 10); got < test.low || got > test.high {
			t.Errorf("%s: load %.2f, want %.2f to %.2f", test.name, got, test.low, test.high)
		}
	}
}

// The rate settles within a second where the load is what packets make of it, stays there, and goes
// back to every packet when there is room.
func TestPace(t *testing.T) {
	for _, every := range []float64{0.5, 1.1, 3, 50, 7000} { // load with every packet
		p := pace{oneIn: 1}
		for range 10 {
			p.follow(every / float64(p.oneIn))
		}
		settled := p.oneIn
		if load := every / float64(settled); load > 1 || load < 0.4 && settled > 1 {
			t.Errorf("load %.1f: one of %d makes it %.2f", every, settled, load)
		}
		for range 100 {
			p.follow(every / float64(p.oneIn))
			if load := every / float64(p.oneIn); load > 1 {
				t.Fatalf("load %.1f: one of %d was enough, and then one of %d makes it %.2f", every, settled, p.oneIn, load)
			}
		}
		for n := 0; p.oneIn > 1; n++ {
			p.follow(0.5 / float64(p.oneIn))
			if n == 100 {
				t.Fatalf("load 0.5: one of %d is kept, after 10 s", p.oneIn)
			}
		}
	}
}

// A rest counts the sleep that lasts.
func TestRest(t *testing.T) {
	r := newRest()
	r.begin()
	for r.total() == 0 {
	}
	r.end()
	slept := r.total()
	time.Sleep(time.Millisecond)
	if slept <= 0 || r.total() != slept {
		t.Errorf("slept %v, and later %v", slept, r.total())
	}
}
