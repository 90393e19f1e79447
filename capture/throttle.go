package capture

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
)

const (
	// throttleInterval is how often an adaptive session looks whether it keeps up.
	throttleInterval = 100 * time.Millisecond
	// busyTarget is for which part of its time the reader of an adaptive session may be at work.
	// The rest is for moments at which more packets come, or the machine has other work.
	busyTarget = 0.75
	// calmTicks is for how many looks in a row there must be room before more packets are kept.
	calmTicks = 5
	// maxOneIn bounds the rate of an adaptive session.
	maxOneIn = 1 << 24
)

// A throttle lets an adaptive session keep as many packets as its reader, its rings and its outputs
// take. It has a goroutine of its own.
type throttle struct {
	session *Session
	pace    pace
	before  workload
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
	t := &throttle{session: s, pace: pace{oneIn: 1}, quit: make(chan struct{}), done: make(chan struct{})}
	t.before.at = time.Now()
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

// look compares what was done since the last look with what can be done, and changes the rate.
func (t *throttle) look() error {
	now, err := t.read()
	if err != nil {
		return err
	}
	o := &t.session.options
	before, oneIn := t.before, t.pace.oneIn
	t.before = now
	t.pace.follow(now.since(&before).load(o, oneIn))
	if t.pace.oneIn == oneIn {
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

// A workload is what a session has done until some time or, as a difference, between two.
type workload struct {
	at      time.Time
	elapsed time.Duration // of a difference

	pool   uint64 // packets that came to be sampled, unless SampleFlows or First have chosen some
	kept   uint64 // packets that were drawn
	lost   uint64 // those of them that found no room in a ring
	rested time.Duration
	queues []queueWork
}

// queueWork is what went through the queue of an output, in bytes.
type queueWork struct{ added, written, waiting, limit int64 }

func (t *throttle) read() (w workload, err error) {
	s := t.session
	w.at, w.rested = time.Now(), s.reader.rest.total()
	for i := range s.sources {
		perCPU, err := s.sampler.perCPU(i)
		if err != nil {
			return w, err
		}
		for _, a := range perCPU {
			if a.Sampled == 0 {
				continue // it may have no ring yet, against which no rate helps
			}
			w.pool += a.Seen - a.FilteredOut
			w.kept += a.Sampled + a.Lost
			w.lost += a.Lost
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, out := range t.outputs {
		added, written, limit := out.backlog()
		w.queues = append(w.queues, queueWork{added, written, added - written, limit})
	}
	return w, nil
}

// since returns what was done after another time.
func (w *workload) since(before *workload) *workload {
	d := *w
	d.elapsed = w.at.Sub(before.at)
	d.pool -= min(d.pool, before.pool)
	d.kept -= min(d.kept, before.kept)
	d.lost -= min(d.lost, before.lost)
	d.rested -= before.rested
	d.queues = nil
	for i, q := range w.queues {
		if i < len(before.queues) {
			q.added -= before.queues[i].added
			q.written -= before.queues[i].written
			d.queues = append(d.queues, q)
		}
	}
	return &d
}

// load is how much is asked of what limits the session, where one packet of oneIn is kept: 1 is as
// much as it is to do, and at 2 it should keep half as many packets.
func (w *workload) load(o *Options, oneIn uint32) float64 {
	load := (1 - w.rested.Seconds()/w.elapsed.Seconds()) / busyTarget
	if w.lost > 0 {
		load = max(load, float64(w.kept)/float64(max(w.kept-w.lost, w.kept/16+1))/busyTarget)
	}
	if o.MaxRate > 0 {
		rate := float64(w.kept)
		if o.SampleFlows <= 1 && o.First == 0 { // then this is exact
			rate = float64(w.pool) / float64(oneIn)
		}
		load = max(load, rate/w.elapsed.Seconds()/(0.95*float64(o.MaxRate)))
	}
	for _, q := range w.queues {
		load = max(load, q.load())
	}
	return load
}

// load is that of an output: what is put into its queue is to be less than it writes, once an
// eighth of the queue is full. A queue that is half as full is to stay so.
func (q *queueWork) load() float64 {
	switch full := float64(q.waiting) / float64(q.limit); {
	case full < 1./16:
		return 0
	case full < 1./8:
		return 0.9
	default:
		return float64(q.added) / float64(max(q.written, 1)) * (1 + full)
	}
}

// A pace is the rate of an adaptive session: one packet of oneIn is kept.
type pace struct {
	oneIn uint32
	calm  int     // looks in a row at which there was room
	most  float64 // the largest load at these
}

// follow changes the rate after a look. Too high a load is followed at once, and by as much as is
// needed. Of room, only so much is taken as makes the load 0.9, and at most twice as many packets
// at a time, because what they take is known only then.
func (p *pace) follow(load float64) {
	switch {
	case load > 1:
		p.oneIn = uint32(min(math.Ceil(float64(p.oneIn)*min(load, 16)), maxOneIn))
		p.calm, p.most = 0, 0
	case load >= 0.8 || p.oneIn == 1:
		p.calm, p.most = 0, 0
	default:
		p.calm, p.most = p.calm+1, max(p.most, load)
		if p.calm < calmTicks {
			return
		}
		p.oneIn = max(uint32(math.Ceil(float64(p.oneIn)*p.most/0.9)), p.oneIn/2, 1)
		p.calm, p.most = 0, 0
	}
}

// A rest measures how long a goroutine has slept.
type rest struct {
	started time.Time
	slept   atomic.Int64 // ns, without the sleep that lasts
	since   atomic.Int64 // when that one began, in ns after started; 0 = it is awake
}

func newRest() *rest { return &rest{started: time.Now()} }

func (r *rest) begin() { r.since.Store(int64(time.Since(r.started)) | 1) }

func (r *rest) end() { r.slept.Add(int64(time.Since(r.started)) - r.since.Swap(0)) }

func (r *rest) total() time.Duration {
	slept, since := r.slept.Load(), r.since.Load()
	if since != 0 {
		slept += int64(time.Since(r.started)) - since
	}
	return time.Duration(slept)
}
