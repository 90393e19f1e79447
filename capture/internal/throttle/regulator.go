package throttle

import (
	"fmt"
	"sync"
	"time"
)

// A Program has the functions of the sampling programs for a Regulator: to read their counts, and
// to set the rate.
type Program interface {
	// Count adds the counts of the programs and their reader.
	Count(*Counters) error
	// SetRate makes the programs keep one packet of so many.
	SetRate(oneIn uint32) error
}

// A Backlogged output has a queue, with these counters.
type Backlogged interface {
	Backlog() (added, written, limit int64)
}

// A Regulator makes a session keep as many packets as its reader, its rings and its outputs can
// take: it passes their counts to a Throttle, and the rate to the programs. It has its own
// goroutine.
type Regulator struct {
	program  Program
	notice   func(error)
	throttle *Throttle
	told     bool // a notice was given that not all packets are kept

	mu      sync.Mutex
	outputs []Backlogged

	ending     sync.Once
	quit, done chan struct{}
}

// NewRegulator returns a regulator of these programs. The caller starts Run.
func NewRegulator(p Program, o Options, notice func(error)) *Regulator {
	return &Regulator{program: p, notice: notice, throttle: New(o), quit: make(chan struct{}), done: make(chan struct{})}
}

// Watch adds an output. It must have begun.
func (r *Regulator) Watch(out Backlogged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs = append(r.outputs, out)
}

// Run adapts the rate until End or Close is called.
func (r *Regulator) Run() {
	defer close(r.done)
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
			if err := r.look(); err != nil {
				r.notice(fmt.Errorf("the sampling rate stays at one packet of %d: %w", r.throttle.Rate(), err))
				return
			}
		}
	}
}

// End makes the goroutine end, and does not wait for it.
func (r *Regulator) End() { r.ending.Do(func() { close(r.quit) }) }

// Close joins the goroutine. After it, Backlog is no longer called.
func (r *Regulator) Close() {
	r.End()
	<-r.done
}

// look reads the counters, and changes the rate of the programs if that follows from them.
func (r *Regulator) look() error {
	now, err := r.read()
	if err != nil {
		return err
	}
	if !r.throttle.Follow(&now) {
		return nil
	}
	oneIn := r.throttle.Rate()
	if err := r.program.SetRate(oneIn); err != nil {
		return err
	}
	if !r.told {
		r.told = true
		r.notice(fmt.Errorf("more packets come than can be kept: keeping one of %d from now on, or as many as there is room for; each records how many packets it represents", oneIn))
	}
	return nil
}

func (r *Regulator) read() (c Counters, err error) {
	c.At = time.Now()
	if err := r.program.Count(&c); err != nil {
		return c, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, out := range r.outputs {
		added, written, limit := out.Backlog()
		c.Queues = append(c.Queues, Queue{Added: added, Written: written, Limit: limit})
	}
	return c, nil
}
