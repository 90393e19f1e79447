package watch

import (
	"fmt"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
)

// A backlogged output has a queue, with these counters: see capture.Backlogged.
type backlogged interface {
	Backlog() (added, written, limit int64)
}

// A Regulator makes an adaptive session keep as many packets as its reader, its rings and its
// outputs can take: it passes their counters to a throttle.Throttle, and the rate to the programs.
type Regulator struct {
	task
	sampler  *probe.Sampler
	reader   *probe.Reader
	throttle *throttle.Throttle
	noticed  bool // a notice was given that not all packets are kept

	mu      sync.Mutex
	outputs []backlogged
}

// NewRegulator returns a regulator of a session's programs. The caller starts Run.
func NewRegulator(k *probe.Sampler, r *probe.Reader) *Regulator {
	// Choosing packets by their flows skips packets of the pool, whatever the rate is.
	o := throttle.Options{MaxRate: k.Options.MaxRate, Skips: k.Options.ChoosesFlows()}
	return &Regulator{task: newTask(), sampler: k, reader: r, throttle: throttle.New(o)}
}

// Watch adds an output, which must have begun. Once the regulator's Close has returned, the
// output's Backlog is no longer called.
func (r *Regulator) Watch(out backlogged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outputs = append(r.outputs, out)
}

// Run adapts the rate until End or Close is called.
func (r *Regulator) Run() {
	defer close(r.Done)
	ticker := time.NewTicker(throttle.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
			if err := r.adapt(); err != nil {
				r.sampler.Options.Notice(fmt.Errorf("the sampling rate stays at one packet of %d: %w", r.throttle.Rate(), err))
				return
			}
		}
	}
}

// adapt reads the counters, and changes the rate of the programs if that follows from them.
func (r *Regulator) adapt() error {
	now, err := r.counters()
	if err != nil {
		return err
	}
	if changed := r.throttle.Follow(&now); !changed {
		return nil
	}
	oneIn := r.throttle.Rate()
	if err := r.sampler.SetRate(oneIn); err != nil {
		return err
	}
	if !r.noticed {
		r.noticed = true
		r.sampler.Options.Notice(fmt.Errorf("more packets come than can be kept: keeping one of %d from now on, or as many as there is room for; each records how many packets it represents", oneIn))
	}
	return nil
}

// counters reads those of the programs, the reader and the outputs.
func (r *Regulator) counters() (c throttle.Counters, err error) {
	c.At, c.Rested, c.Taken = time.Now(), r.reader.Rest.Total(), r.reader.Taken.Load()
	for slot := range r.reader.Roster.UsedSlots() {
		perCPU, err := r.sampler.PerCPU(slot)
		if err != nil {
			return c, err
		}
		for _, n := range perCPU {
			if n.Sampled == 0 {
				continue // the CPU may have no ring yet, and no rate helps against that
			}
			// The kernel copies the counters one after the other while packets come, so the copy
			// of FilteredOut may be larger than that of Seen.
			c.Pool += n.Seen - min(n.Seen, n.FilteredOut)
			c.Kept += n.Sampled + n.Lost // lost packets were drawn, too
			c.Lost += n.Lost
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, out := range r.outputs {
		added, written, limit := out.Backlog()
		c.Queues = append(c.Queues, throttle.Queue{Added: added, Written: written, Limit: limit})
	}
	return c, nil
}
