package capture

import (
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// throttleInterval is how often an adaptive session looks whether it keeps up.
const throttleInterval = 100 * time.Millisecond

// A throttle lets an adaptive session keep as many packets as its reader, its rings and its outputs
// take. It has a goroutine of its own.
type throttle struct {
	session *Session
	pace    pace
	history history
	told    bool // that not all packets are kept

	mu      sync.Mutex
	outputs []backlogged

	ending     sync.Once
	quit, done chan struct{}
}

// A backlogged output has a queue of packets that wait for a file.
type backlogged interface {
	// backlog returns how many bytes were put into the queue so far, how many of them were taken
	// out, and how many may wait. Any goroutine may call it between Begin and End.
	backlog() (added, written, limit int64)
}

func (s *Session) startThrottle() {
	t := &throttle{session: s, pace: newPace(), quit: make(chan struct{}), done: make(chan struct{})}
	t.history.add(workload{at: time.Now()})
	s.throttle = t
	go t.run()
}

// watch takes up the outputs, which have begun.
func (t *throttle) watch(outputs []Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, out := range outputs {
		if b, ok := out.(backlogged); ok {
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
				t.session.notice(fmt.Errorf("the rate of sampling stays at one packet of %d: %w", t.pace.oneIn, err))
				return
			}
		}
	}
}

// end makes the goroutine end, without waiting for that.
func (t *throttle) end() { t.ending.Do(func() { close(t.quit) }) }

// close joins the goroutine. Outputs are not asked any more after that.
func (t *throttle) close() {
	t.end()
	<-t.done
}

// look changes the rate by what was done since the last looks, and by what waits to be done.
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
		return fmt.Errorf("change the rate of sampling: %w", err)
	}
	if !t.told {
		t.told = true
		t.session.notice(fmt.Errorf("more packets come than can be kept: one of %d is kept from now on, or as many as there is room for, and each says for how many it stands", t.pace.oneIn))
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
				continue // it may have no ring yet, against which no rate helps
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
		added, written, limit := out.backlog()
		w.queues = append(w.queues, newQueueWork(added, written, limit))
	}
	return w, nil
}
