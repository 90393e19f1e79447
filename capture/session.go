package capture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ErrInterfaceGone is wrapped by Read's error after an interface of the session was deleted or
// moved to another network namespace.
var ErrInterfaceGone = errors.New("was deleted or moved to another network namespace")

// A Session is a running capture. Read and Pending belong to one goroutine; Stop and Stats may be called
// by any. Close comes last.
type Session struct {
	options Options
	started int64 // ns since the Unix epoch
	sampler *sampler
	clock   clock
	rings   []*ring
	order   order  // the rings that stand on a sample
	horizon uint64 // CLOCK_MONOTONIC ns up to which the order is final

	poll    int // epoll: the rings, wake and watcher
	wake    int // eventfd: Stop was called
	watcher *xdp.Watcher

	tally    []tally // by source, owned by the reader
	captured uint64  // the sum over tally
	taken    uint64  // records taken out of the rings, of whatever kind
	err      error   // what Read returns from now on
	cause    error   // what ended the session, io.EOF when the caller did

	stop     sync.Once
	detached atomic.Int64 // CLOCK_MONOTONIC ns; 0 = attached

	mu        sync.Mutex
	published []tally
	final     *Stats // once Read has returned an error
}

// Open attaches to the interfaces and begins to capture, or attaches to none.
func Open(o Options) (*Session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ifis, err := o.lookUp()
	if err != nil {
		return nil, err
	}
	filters, err := o.filters(ifis)
	if err != nil {
		return nil, err
	}
	if err := support.CheckPrivileges(); err != nil {
		return nil, err
	}
	plans, err := o.plan(ifis, filters)
	defer closePlans(plans) // what is loaded holds on to its target
	if err != nil {
		return nil, err
	}
	s := &Session{options: o, poll: -1, wake: -1}
	if err := s.open(plans); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open(plans []plan) (err error) {
	if s.clock, err = newClock(); err != nil {
		return err
	}
	if s.sampler, err = newSampler(plans, s.options); err != nil {
		return err
	}
	sources := len(s.sampler.sources)
	s.tally, s.published = make([]tally, sources), make([]tally, sources)
	if err := s.openRings(sources); err != nil {
		return err
	}
	var indices []int
	for _, p := range plans {
		indices = append(indices, p.ifi.Index)
	}
	if s.watcher, err = xdp.Watch(indices); err != nil {
		return err
	}
	if err := s.poller(); err != nil {
		return fmt.Errorf("wait for the rings: %w", err)
	}
	s.started = time.Now().UnixNano()
	return s.sampler.attach()
}

// openRings makes a ring for every CPU that is online. A packet on a CPU that comes online later is
// counted as lost.
func (s *Session) openRings(sources int) error {
	watermark := s.options.Buffer / ringParts
	if s.options.Immediate {
		watermark = 1
	}
	for cpu := range s.sampler.cpus() {
		r, err := openRing(cpu, s.options.Buffer, watermark, sources)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return err
		}
		s.rings = append(s.rings, r)
		if err := s.sampler.setRing(cpu, r.fd); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) poller() (err error) {
	if s.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	fds := []int{s.wake, s.watcher.FD()}
	for _, r := range s.rings {
		fds = append(fds, r.fd)
	}
	for _, fd := range fds {
		// Edge-triggered: nobody takes Stop's event out of the eventfd again.
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(s.poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
	}
	return nil
}

// Interfaces are where the session's packets come from: the interfaces in the order of Options.Interfaces, each with
// its hooks.
func (s *Session) Interfaces() []Interface { return slices.Clone(s.sampler.sources) }

// Options are the options of Open with the defaults filled in.
func (s *Session) Options() Options { return s.options }

// Stop detaches from the interfaces; Read then returns what was on its way and ends.
func (s *Session) Stop() {
	s.stop.Do(func() {
		s.sampler.detach()
		now, _ := gettime(unix.CLOCK_MONOTONIC)
		s.detached.Store(now)
		var one = [8]byte{1}
		unix.Write(s.wake, one[:])
	})
}

// Stats returns the counters as they are now; after Read has returned an error, the final ones.
func (s *Session) Stats() (Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return *s.final, nil
	}
	accounts, err := s.sampler.accounts()
	if err != nil {
		return Stats{}, err
	}
	return total(s.count(accounts)), nil
}

// count joins what the kernel counted with what the reader did. The caller holds mu.
func (s *Session) count(accounts []samplerAccount) []Counters {
	counters := make([]Counters, len(accounts))
	for i, a := range accounts {
		t := s.published[i]
		counters[i] = Counters{
			Seen:        a.Seen,
			FilteredOut: a.FilteredOut,
			NotSampled:  a.NotSampled + t.passedOver,
			Lost:        a.Lost,
			Invalid:     t.invalid,
			Captured:    t.captured,
			Bytes:       t.bytes,
		}
	}
	return counters
}

// Close detaches and releases everything. Packets still in the rings are gone: call Stop and Read until
// it ends to have them.
func (s *Session) Close() error {
	var errs []error
	if s.sampler != nil {
		s.Stop()
		errs = append(errs, s.sampler.close())
	}
	for _, r := range s.rings {
		errs = append(errs, r.close())
	}
	if s.watcher != nil {
		s.watcher.Close()
	}
	for _, fd := range []int{s.poll, s.wake} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	s.rings, s.order, s.err = nil, nil, os.ErrClosed
	s.watcher, s.poll, s.wake = nil, -1, -1
	return errors.Join(errs...)
}
