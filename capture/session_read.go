package capture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/watch"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// Run writes the session's packets to the outputs, as [Run] does with any input: until ctx is done,
// Stop is called, Options.Count is reached, no hook sees packets any more, or an output fails.
func (s *Session) Run(ctx context.Context, outputs ...Output) ([]Accounts, error) {
	return Run(ctx, s, outputs...)
}

// Read implements [Input]. Packets that are on their way when the session is stopped are returned
// before io.EOF. It does not allocate.
func (s *Session) Read(packets []Packet, idle func()) (int, error) {
	s.reader.Laps.Lap(probe.Writing)
	s.reader.Idle = idle
	n, err := s.reader.Read(packets)
	s.reader.Idle = nil
	if err != nil {
		return 0, s.whyEnded()
	}
	s.reader.Laps.Lap(probe.Reading)
	return n, nil
}

// regulate implements regulated: an adaptive session adapts its rate to its outputs.
func (s *Session) regulate(outputs []Output) (end func()) {
	regulator, ok := s.monitor.(*watch.Regulator)
	if !ok {
		return func() {}
	}
	for _, out := range outputs {
		if b, ok := innermost(out).(Backlogged); ok {
			regulator.Watch(b)
		}
	}
	return regulator.Close
}

// newFirstLoss returns the monitor of a session that is not adaptive.
func (s *Session) newFirstLoss() *watch.FirstLoss {
	return watch.NewFirstLoss(s.started, s.sampler, &s.reader, s.options.rings())
}

// Packets returns the session's packets, each valid until the next one, until ctx is done or
// another of the causes that end Run occurs. An error comes last, without a packet. Breaking out of
// the loop leaves the session running: the packets of the last group stay pending in Accounts, and
// those of them that were not yielded are never yielded. For exact accounts call Stop instead, and
// let the loop end. The caller must call Close in any case.
func (s *Session) Packets(ctx context.Context) iter.Seq2[*Packet, error] {
	return func(yield func(*Packet, error) bool) {
		defer context.AfterFunc(ctx, s.Stop)()
		packets := make([]Packet, ring.GroupSize)
		for {
			n, err := s.Read(packets, nil)
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			for i := range packets[:n] {
				if !yield(&packets[i], nil) {
					return
				}
			}
		}
	}
}

// writePlain implements directInput.
func (s *Session) writePlain(e *Encoder, into *Batch) int { return writePlain(&s.reader, e, into) }

// Description describes the session.
func (s *Session) Description() Description {
	d := Description{
		Sources:      s.Sources(),
		Options:      s.options,
		Started:      s.started,
		Hardware:     machine.CPU(),
		OS:           machine.Kernel(),
		Clocks:       s.CardClocks(),
		Stamps:       s.sampler.Stamps,
		Accounts:     s.Accounts,
		OutletName:   s.OutletName,
		ReasonName:   s.ReasonName,
		LocationName: s.LocationName,
		Settled:      func() time.Time { return time.Unix(0, s.reader.Settled.Load()) },
	}
	if s.options.sourcesChange() {
		d.More = s.roster.Since
	}
	return d
}

// OutletName returns the name of the interface through which a packet is sent, or which has lost
// it, or [Outlet.String] if the interface no longer existed when its first packet came, or is in
// another network namespace. Any goroutine may call it, even after the session has ended.
func (s *Session) OutletName(to Outlet) string {
	if name, ok := s.reader.OutletName(to); ok {
		return name
	}
	return to.String()
}

// ReasonName returns the name of a packet's reason: at StackDrop the kernel's without its prefix,
// such as NO_SOCKET, at FailedRedirect that of the error, such as ENETDOWN, and at Exit that of the
// traced program, or the number if it has no name. Any goroutine may call it, even after the
// session has ended.
func (s *Session) ReasonName(source uint16, f *Facts) string {
	src := s.roster.Source(int(source))
	if src.ReasonText != nil {
		return src.ReasonText(f.Reason)
	}
	if src.Hook == FailedRedirect {
		return cmp.Or(unix.ErrnoName(unix.Errno(f.Reason)), fmt.Sprintf("error %d", uint32(f.Reason)))
	}
	if w := s.reader.Words; w != nil {
		return w.Reasons.Name(lost.Reason(f.Reason))
	}
	return fmt.Sprintf("reason %d", uint32(f.Reason))
}

// LocationName returns the name of the kernel's function, or the address in hexadecimal if the
// kernel hides names. Any goroutine may call it, even after the session has ended.
func (s *Session) LocationName(at Location) string {
	if w := s.reader.Words; w != nil {
		return w.Function(uint64(at))
	}
	return fmt.Sprintf("%#x", uint64(at))
}

// A CardClock is the relation of a card's clock to the system's.
type CardClock struct {
	Name   string        // /dev/ptp0
	Ahead  time.Duration // how far it was ahead of CLOCK_REALTIME when last measured
	Within time.Duration // Ahead is wrong by at most half of this
	Faster float64       // how much faster it is than the system's: 1e-6 is 1 us per second; 0 = not known yet
}

func (c CardClock) String() string {
	return fmt.Sprintf("%s is %v ahead of the system's clock, within %v, and gains %.3f us per second", c.Name, c.Ahead, c.Within/2, c.Faster*1e6)
}

// CardClocks returns the clocks of the sources' cards, in the order of Sources. The clock is nil
// for a source without AdapterStamp.
func (s *Session) CardClocks() []*CardClock {
	clocks := make([]*CardClock, s.roster.Size())
	offset, _, err := machine.ClockOffset()
	for i, c := range s.roster.Cards() {
		clock := c.Clock()
		if err != nil || clock == nil {
			continue
		}
		last, faster := clock.Last()
		clocks[i] = &CardClock{
			Name:   clock.Name,
			Ahead:  time.Duration(last.Card - last.Monotonic - offset),
			Within: last.Within,
			Faster: faster,
		}
	}
	return clocks
}

// HasSetCards reports whether the session made a card stamp packets. Undoing that at the end of the
// session needs CAP_NET_ADMIN.
func (s *Session) HasSetCards() bool {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	return slices.ContainsFunc(s.roster.Cards(), func(c probe.Card) bool { return c.IsStamping() })
}
