package throttle

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/estimate"
)

// mostQueued is how many bytes an output's queue holds in these tests, as in a File.
const mostQueued = 1 << 30

// ringSize is how many bytes the ring holds, as by default.
const ringSize = 8 << 20

// A simulation is an adaptive session with one output and a simulated clock. Its reader needs a
// microsecond per packet.
type simulation struct {
	disk    func(now time.Duration) float64 // bytes per second that are written at a time
	packets float64                         // arriving per second
	size    float64                         // bytes of a packet in the file
	limit   float64                         // bytes that may wait in the queue
	draw    func(packets float64) float64   // how many of the arriving packets are kept

	now      time.Duration
	throttle *Throttle

	pool, kept, taken, lost float64
	ring, added, written    float64 // bytes
	writing, done           float64 // bytes of the write that is under way, and how many of them are done
	rested                  time.Duration
}

const simulationStep = 10 * time.Millisecond

func newSimulation(limit int64, packets float64, disk func(time.Duration) float64) *simulation {
	s := &simulation{disk: disk, packets: packets, size: 540, limit: float64(limit), throttle: New(Options{})}
	s.draw = func(packets float64) float64 { return packets / float64(s.throttle.Rate()) }
	s.throttle.history = history{*s.counters()} // with the time of the simulated clock
	return s
}

func (s *simulation) counters() *Counters {
	return &Counters{
		At:     time.Time{}.Add(time.Hour + s.now),
		Pool:   uint64(s.pool),
		Kept:   uint64(s.kept),
		Lost:   uint64(s.lost),
		Taken:  uint64(s.taken),
		Rested: s.rested,
		Queues: []Queue{{Added: int64(s.added), Written: int64(s.written), Limit: int64(s.limit)}},
	}
}

// step advances the clock. Every tenth step calls Follow.
func (s *simulation) step() {
	s.now += simulationStep
	come := s.packets * simulationStep.Seconds()
	kept := s.draw(come)
	fit := min(kept, (ringSize-s.ring)/s.size)
	s.pool, s.kept, s.lost, s.ring = s.pool+come, s.kept+kept, s.lost+kept-fit, s.ring+fit*s.size

	moved := min(s.ring, s.limit-(s.added-s.written))
	s.ring, s.added, s.taken = s.ring-moved, s.added+moved, s.taken+moved/s.size
	if s.ring == 0 { // otherwise it waits for room in the queue
		s.rested += simulationStep - min(time.Duration(moved/s.size)*time.Microsecond, simulationStep)
	}
	s.write(s.disk(s.now) * simulationStep.Seconds())
	if s.now%Interval == 0 {
		s.throttle.Follow(s.counters())
	}
}

// write writes at most this many bytes. Bytes count as written when a whole write has returned.
func (s *simulation) write(most float64) {
	for most > 0 && s.added > s.written {
		if s.writing == 0 {
			s.writing, s.done = min(writeSize, s.added-s.written), 0
		}
		now := min(most, s.writing-s.done)
		most, s.done = most-now, s.done+now
		if s.done == s.writing {
			s.written, s.writing = s.written+s.writing, 0
		}
	}
}

const megabyte = 1e6

func steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// pausing is a disk that stalls repeatedly.
func pausing(rate float64, stall, every time.Duration) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		if now%every >= every-stall {
			return 0
		}
		return rate
	}
}

// After six seconds, with any of these disks, the rate is within a factor of 4 of the highest rate
// at which disk and reader keep up, and no packets are lost.
func TestThrottleDisks(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, test := range []struct {
		name  string
		disk  func(time.Duration) float64
		mean  float64 // bytes per second that it writes
		limit int64   // of the queue
	}{
		{"no limit", steady(1e6 * megabyte), 1e6 * megabyte, mostQueued},
		{"100 MB/s", steady(100 * megabyte), 100 * megabyte, mostQueued},
		{"100 MB/s, stalls of 0.3 s", pausing(100*megabyte, 3*second/10, 2*second), 85 * megabyte, mostQueued},
		{"100 MB/s, stalls of 1 s", pausing(100*megabyte, second, 5*second), 80 * megabyte, mostQueued},
		{"100 MB/s, many stalls of 1 s", pausing(100*megabyte, second, 2*second), 50 * megabyte, mostQueued},
		{"30 MB/s, stalls of 1 s", pausing(30*megabyte, second, 4*second), 22.5 * megabyte, mostQueued},
		{"2 MB/s", steady(2 * megabyte), 2 * megabyte, mostQueued},
		{"1 MB/s", steady(megabyte), megabyte, mostQueued},
		{"2 MB/s, stalls of 1 s", pausing(2*megabyte, second, 5*second), 1.6 * megabyte, mostQueued},
		{"1 MB/s, a queue of 32 MiB", steady(megabyte), megabyte, 32 << 20},
		{"30 MB/s, stalls of 1 s, a queue of 64 MiB", pausing(30*megabyte, second, 4*second), 22.5 * megabyte, 64 << 20},
	} {
		for _, packets := range []float64{20_000, 150_000, 1_000_000} {
			s := newSimulation(test.limit, packets, test.disk)
			for s.now < 6*second {
				s.step()
			}
			before, low, high := s.lost, s.throttle.Rate(), s.throttle.Rate()
			for s.now < time.Minute {
				s.step()
				low, high = min(low, s.throttle.Rate()), max(high, s.throttle.Rate())
			}
			ideal := max(packets*s.size/test.mean, packets/1e6/busyTarget, 1)
			if float64(low) < ideal/4 || float64(high) > ideal*4 || s.lost-before >= 1 {
				t.Errorf("%s, %.0f packets/s: one of %.1f would do, one of %d to %d is kept, and %.0f are lost",
					test.name, packets, ideal, low, high, s.lost-before)
			}
		}
	}
}

// One stall of a second that the queue can hold changes the rate by a factor of 2 at most. Three
// seconds after a stall of any length the rate is the same as before. If not all packets can be
// kept, the rate varies, and is compared with its maximum in the ten seconds before.
func TestThrottleStall(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, test := range []struct {
		name           string
		packets, speed float64
		begin, stall   time.Duration
		limit          int64
		most           uint32 // upper bound for the growth of oneIn
	}{
		{"0.3 s", 150_000, 100 * megabyte, 10 * second, 3 * second / 10, mostQueued, 1},
		{"1 s", 150_000, 100 * megabyte, 10 * second, second, mostQueued, 1},
		{"1 s, soon after the beginning", 150_000, 100 * megabyte, second / 10, second, mostQueued, 2},
		{"1 s, at the beginning", 150_000, 100 * megabyte, 0, second, mostQueued, 2},
		{"1 s, which just fills the queue", 150_000, 100 * megabyte, 10 * second, second, 82 * megabyte, 2},
		{"1 s, for which the queue is too small", 150_000, 100 * megabyte, 10 * second, second, 2 << 20, 2},
		{"1 s, where more comes than can be kept", 1_000_000, 100 * megabyte, 20 * second, second, mostQueued, 2},
		{"1 s, where much more comes", 10_000_000, 100 * megabyte, 20 * second, second, mostQueued, 2},
		{"1 s, of a slow disk", 150_000, 2 * megabyte, 60 * second, second, mostQueued, 2},
		{"10 s", 150_000, 100 * megabyte, 10 * second, 10 * second, mostQueued, 400},
		{"60 s", 150_000, 100 * megabyte, 10 * second, 60 * second, mostQueued, 400},
		{"10 s, a queue of 2 MiB", 150_000, 100 * megabyte, 10 * second, 10 * second, 2 << 20, 400},
	} {
		end := test.begin + test.stall
		s := newSimulation(test.limit, test.packets, func(now time.Duration) float64 {
			if now > test.begin && now <= end {
				return 0
			}
			return test.speed
		})
		before, high := uint32(1), uint32(1)
		for s.now < end+3*second {
			s.step()
			switch n := s.throttle.Rate(); {
			case s.now > test.begin:
				high = max(high, n)
			case s.now > test.begin-10*second:
				before = max(before, n)
			}
		}
		after := s.throttle.Rate()
		if high > before*test.most {
			t.Errorf("%s: one of %d was kept before, and one of %d at most since then", test.name, before, high)
		}
		if after > before*3/2 || after < before/2 {
			t.Errorf("%s: one of %d was kept before, and one of %d three seconds after it", test.name, before, after)
		}
	}
}

// Across stalls of a disk, the true number of packets of a flow is within the bounds of the
// estimate from the drawn packets.
func TestThrottleBounds(t *testing.T) {
	t.Parallel()
	const share = 5 // each fifth packet is of the flow
	runs := 500
	if testing.Short() {
		runs = 50
	}
	inside, most := 0, uint32(0)
	for run := range runs {
		random := rand.New(rand.NewPCG(uint64(run), 1))
		s := newSimulation(mostQueued, 3000, func(now time.Duration) float64 {
			if now > 5*time.Second && now < 12*time.Second || now > 15*time.Second && now < 16*time.Second {
				return 0
			}
			return 100 * megabyte
		})
		s.size = 27_000
		var drawn estimate.Sum
		var weight, left, keptAt uint32
		came, ours := 0, 0
		s.draw = func(packets float64) (kept float64) { // like is_drawn_adaptively in bpf/sampler.c
			for range int(packets) {
				if came++; came%share == 0 {
					ours++
				}
				if left == 0 || s.throttle.Rate() < weight {
					weight, left = s.throttle.Rate(), s.throttle.Rate()
					keptAt = random.Uint32N(weight)
				}
				if left--; left == keptAt {
					kept++
					if came%share == 0 {
						drawn.Add(weight, 1)
						most = max(most, weight)
					}
				}
			}
			return kept
		}
		for s.now < 20*time.Second {
			s.step()
		}
		if low, high := drawn.Bounds(most, 1); low <= float64(ours) && float64(ours) <= high {
			inside++
		}
		if s.lost > 0 {
			t.Fatalf("%.0f packets were lost", s.lost)
		}
	}
	if most < 10 {
		t.Errorf("the largest weight is %d: the stall changes nothing", most)
	}
	if inside < runs*93/100 {
		t.Errorf("%d times of %d the true number was within the bounds", inside, runs)
	}
	t.Logf("%d of %d within the bounds, largest weight %d", inside, runs, most)
}
