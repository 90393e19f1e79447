package capture

import (
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// throttleInterval is how often an adaptive session checks whether it keeps up.
const throttleInterval = 100 * time.Millisecond

// A throttle makes an adaptive session keep as many packets as its reader, its rings and its
// outputs can take. It has its own goroutine.
type throttle struct {
	session *Session
	pace    pace
	history history
	told    bool // a notice said that not all packets are kept

	mu      sync.Mutex
	outputs []Backlogged

	ending     sync.Once
	quit, done chan struct{}
}

// A Backlogged output has a queue of packets that wait to be written. The rate of a session with
// Options.Adaptive follows how the queue fills up.
type Backlogged interface {
	// Backlog returns how many bytes were added to the queue so far, how many of them were written,
	// and how many may wait. Any goroutine may call it between Begin and End.
	Backlog() (added, written, limit int64)
}

func (s *Session) startThrottle() {
	t := &throttle{session: s, pace: newPace(), quit: make(chan struct{}), done: make(chan struct{})}
	t.history.add(workload{at: time.Now()})
	s.throttle = t
	go t.run()
}

// watch adds the outputs. They must have begun.
func (t *throttle) watch(outputs []Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, out := range outputs {
		if b, ok := out.(Backlogged); ok {
			t.outputs = append(t.outputs, b)
		}
	}
}

func (t *throttle) run() {
	defer close(t.done)
	ticker := time.NewTicker(throttleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-ticker.C:
			if err := t.look(); err != nil {
				t.session.notice(fmt.Errorf("the sampling rate stays at one packet of %d: %w", t.pace.oneIn, err))
				return
			}
		}
	}
}

// end makes the goroutine end, and does not wait for it.
func (t *throttle) end() { t.ending.Do(func() { close(t.quit) }) }

// close joins the goroutine. After it, Backlog is no longer called.
func (t *throttle) close() {
	t.end()
	<-t.done
}

// look adapts the rate to the work done since the last looks and to the work that waits.
func (t *throttle) look() error {
	now, err := t.read()
	if err != nil {
		return err
	}
	before := t.pace.oneIn
	t.history.add(now)
	t.pace.follow(t.history.strain(&t.session.options, before))
	if t.pace.oneIn == before {
		return nil
	}
	if err := t.session.sampler.maps[samplerMapRates].Update(uint32(0), t.pace.oneIn, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("change the sampling rate: %w", err)
	}
	if !t.told {
		t.told = true
		t.session.notice(fmt.Errorf("more packets come than can be kept: keeping one of %d from now on, or as many as there is room for; each records how many packets it represents", t.pace.oneIn))
	}
	return nil
}

func (t *throttle) read() (w workload, err error) {
	s := t.session
	w.at, w.rested, w.taken = time.Now(), s.reader.rest.total(), s.reader.taken.Load()
	for i := range s.sources {
		perCPU, err := s.sampler.perCPU(i)
		if err != nil {
			return w, err
		}
		for _, a := range perCPU {
			if a.Sampled == 0 {
				continue // it may have no ring yet, and no rate helps against that
			}
			// The kernel copies the counters one after the other while packets come.
			w.pool += a.Seen - min(a.Seen, a.FilteredOut)
			w.kept += a.Sampled + a.Lost
			w.lost += a.Lost
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, out := range t.outputs {
		added, written, limit := out.Backlog()
		w.queues = append(w.queues, newQueueWork(added, written, limit))
	}
	return w, nil
}
