package capture

import (
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
)

// A regulator makes an adaptive session keep as many packets as its reader, its rings and its
// outputs can take: it tells a Throttle what they have done, and the programs the rate. It has its
// own goroutine.
type regulator struct {
	sampler  *sampler
	reader   *reader
	throttle *throttle.Throttle
	told     bool // a notice said that not all packets are kept

	mu      sync.Mutex
	outputs []Backlogged

	ending     sync.Once
	quit, done chan struct{}
}

// newRegulator returns a regulator of the programs and the reader of a session. The caller starts
// run.
func newRegulator(k *sampler, r *reader) *regulator {
	o := k.options
	return &regulator{
		sampler: k, reader: r,
		throttle: throttle.New(throttle.Options{MaxRate: o.MaxRate, Skips: o.SampleFlows > 1 || o.First > 0}),
		quit:     make(chan struct{}), done: make(chan struct{}),
	}
}

// watch adds the outputs. They must have begun.
func (r *regulator) watch(outputs []Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, out := range outputs {
		if b, ok := innermost(out).(Backlogged); ok {
			r.outputs = append(r.outputs, b)
		}
	}
}

func (r *regulator) run() {
	defer close(r.done)
	ticker := time.NewTicker(throttle.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
			if err := r.look(); err != nil {
				r.sampler.options.notice(fmt.Errorf("the sampling rate stays at one packet of %d: %w", r.throttle.Rate(), err))
				return
			}
		}
	}
}

// end makes the goroutine end, and does not wait for it.
func (r *regulator) end() { r.ending.Do(func() { close(r.quit) }) }

// close joins the goroutine. After it, Backlog is no longer called.
func (r *regulator) close() {
	r.end()
	<-r.done
}

// look reads the counters, and changes the rate of the programs if that follows from them.
func (r *regulator) look() error {
	now, err := r.read()
	if err != nil {
		return err
	}
	if !r.throttle.Follow(&now) {
		return nil
	}
	oneIn := r.throttle.Rate()
	if err := r.sampler.maps[kernel.SamplerMapRates].Update(uint32(0), oneIn, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("change the sampling rate: %w", err)
	}
	if !r.told {
		r.told = true
		r.sampler.options.notice(fmt.Errorf("more packets come than can be kept: keeping one of %d from now on, or as many as there is room for; each records how many packets it represents", oneIn))
	}
	return nil
}

func (r *regulator) read() (c throttle.Counters, err error) {
	c.At, c.Rested, c.Taken = time.Now(), r.reader.rest.Total(), r.reader.taken.Load()
	for i := range r.sampler.roster.usedSlots() {
		perCPU, err := r.sampler.perCPU(i)
		if err != nil {
			return c, err
		}
		for _, a := range perCPU {
			if a.Sampled == 0 {
				continue // it may have no ring yet, and no rate helps against that
			}
			// The kernel copies the counters one after the other while packets come.
			c.Pool += a.Seen - min(a.Seen, a.FilteredOut)
			c.Kept += a.Sampled + a.Lost
			c.Lost += a.Lost
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
