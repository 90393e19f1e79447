package capture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
	"golang.org/x/sys/unix"
)

// Run writes the session's packets to the outputs, as [Run] does with any input: until ctx is done,
// Stop is called, Options.Count is reached, no hook sees packets any more, or an output fails.
func (s *Session) Run(ctx context.Context, outputs ...Output) ([]Accounts, error) {
	return Run(ctx, s, outputs...)
}

// Read implements [Input]. Packets that are on their way when the session is stopped are returned
// before io.EOF. It allocates nothing.
func (s *Session) Read(packets []Packet, idle func()) (int, error) {
	s.laps.Lap(throttle.Writing)
	s.reader.idle = idle
	n, err := s.reader.read(packets)
	s.reader.idle = nil
	if err != nil {
		return 0, s.ended()
	}
	s.laps.Lap(throttle.Reading)
	return n, nil
}

// regulate adapts the rate of an adaptive session to how its outputs keep up.
func (s *Session) regulate(outputs []Output) (end func()) {
	if s.regulator == nil {
		return func() {}
	}
	s.regulator.watch(outputs)
	return s.regulator.close
}

// Packets returns the session's packets, each valid until the next one, until ctx is done or
// something else happens that would end Run. An error comes last, without a packet. Breaking out of
// the loop leaves the session running. The caller must call Close in any case.
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
func (s *Session) writePlain(e *Encoder, into *Batch) int { return s.reader.writePlain(e, into) }

// Description describes the session.
func (s *Session) Description() Description {
	d := Description{
		Sources:      s.Sources(),
		Options:      s.options,
		Started:      s.started,
		Hardware:     machine.CPU(),
		OS:           machine.Kernel(),
		Clocks:       s.CardClocks(),
		Stamps:       s.sampler.worth,
		Accounts:     s.Accounts,
		OutletName:   s.OutletName,
		ReasonName:   s.ReasonName,
		LocationName: s.LocationName,
		Settled:      func() time.Time { return time.Unix(0, s.reader.settled.Load()) },
	}
	if s.options.follows() {
		d.More = s.roster.since
	}
	return d
}

// OutletName returns the name of the interface through which a packet is sent. If the interface no
// longer existed when its first packet came, or is in another network namespace, the name is made
// from its number. Any goroutine may call it, even after the session has ended.
func (s *Session) OutletName(to Outlet) string {
	if name, ok := s.reader.outlets.name(to); ok {
		return name
	}
	return to.String()
}

// ReasonName returns the name of a packet's reason: at StackDrop the kernel's without its prefix,
// such as NO_SOCKET, at FailedRedirect that of the error, such as ENETDOWN, and at Exit that of the
// traced program, or the number if it has no name. Any goroutine may call it, even after the
// session has ended.
func (s *Session) ReasonName(source uint16, f *Facts) string {
	src := s.roster.source(int(source))
	if src.ReasonText != nil {
		return src.ReasonText(f.Reason)
	}
	if src.Hook == FailedRedirect {
		return cmp.Or(unix.ErrnoName(unix.Errno(f.Reason)), fmt.Sprintf("error %d", uint32(f.Reason)))
	}
	if w := s.reader.words; w != nil {
		return w.Reasons.Name(lost.Reason(f.Reason))
	}
	return fmt.Sprintf("reason %d", uint32(f.Reason))
}

// LocationName returns the name of the kernel's function, or the address in hexadecimal if the
// kernel hides names. Any goroutine may call it, even after the session has ended.
func (s *Session) LocationName(at Location) string {
	if w := s.reader.words; w != nil {
		return w.Function(uint64(at))
	}
	return fmt.Sprintf("%#x", uint64(at))
}

// CardClocks returns the clocks of the sources' cards, in the order of Sources. The clock is nil
// for a source without AdapterStamp.
func (s *Session) CardClocks() []*CardClock {
	clocks := make([]*CardClock, s.roster.size())
	offset, _, err := machine.ClockOffset()
	for i, c := range s.roster.cards() {
		stamps := c.stamps
		if err != nil || stamps == nil || stamps.clock == nil {
			continue
		}
		last, faster := stamps.clock.Last()
		clocks[i] = &CardClock{
			Name:   stamps.clock.Name,
			Ahead:  time.Duration(last.Card - last.Monotonic - offset),
			Within: last.Within,
			Faster: faster,
		}
	}
	return clocks
}

// SetCards reports whether the session has told a card to stamp packets. Undoing that at the end of
// the session needs CAP_NET_ADMIN.
func (s *Session) SetCards() bool {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	return slices.ContainsFunc(s.roster.cards(), func(c card) bool { return c.stamps != nil && c.stamps.stamping != nil })
}
