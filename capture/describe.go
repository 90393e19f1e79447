package capture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
	"golang.org/x/sys/unix"
)

// A Description is what a session's files say about the session besides its packets.
type Description struct {
	Sources  []Source     // the sources at Begin
	Options  Options      // with the defaults filled in
	Started  time.Time    // when the session began to attach
	Hardware string       // the CPU's model
	OS       string       // as `uname -srm` prints it
	Clocks   []*CardClock // Session.CardClocks at Begin; nil = none
	Stamps   string       // the accuracy of HostLowprecStamp's stamps, in words; "" = another Stamp
	Recorded string       // why and when a recorder wrote the file; "" = none did

	// Anonymized says how addresses were replaced in packets and Sources, and what was omitted;
	// "" = nothing was. An Encoder writes it into the header, and then neither the command line nor
	// comments of capture files.
	Anonymized string

	// More returns the sources that have come after so many others. Capture files describe their
	// sources one by one, and interfaces may come during a session: one that is not in Sources is
	// in More when its first packet comes. It may have the index of one that has gone: a
	// [SourceList] puts them where they belong. Only the goroutine of Begin and Write may call it;
	// nil = Sources has all.
	More func(come int) []Source

	// OutletName is Session.OutletName; nil = no packet has a To.
	OutletName func(Outlet) string

	// ReasonName and LocationName are those of Session; nil = no packet has a Reason.
	ReasonName   func(source uint16, f *Facts) string
	LocationName func(Location) string

	// Accounts returns the accounts so far, as Session.Accounts does; nil = not known.
	Accounts func() (Accounts, error)

	// Settled returns the stamp up to which all packets were handed over; nil = always up to now.
	// Any goroutine may call it.
	Settled func() time.Time

	// Stopped is closed when the reading of complete capture files is stopped. Until then an output
	// may wait in Write, because packets that wait in a file are not lost; nil = they are.
	Stopped <-chan struct{}

	Files Files // the capture files that the input reads; nil = packets are captured live
}

// IsLive tells whether packets are captured live rather than read from capture files.
func (d *Description) IsLive() bool { return d.Files == nil }

// Notice calls Options.Notice, if it is not nil.
func (d *Description) Notice(err error) { d.Options.notice(err) }

// CauseNames returns the names of why and where a packet of a source was thrown away; "" for other
// packets. One that a traced program dropped has no location.
func (d *Description) CauseNames(source uint16, f *Facts) (reason, location string) {
	if f.Location == 0 && f.Reason == 0 || d.ReasonName == nil || d.LocationName == nil {
		return "", ""
	}
	if f.Location != 0 {
		location = d.LocationName(f.Location)
	}
	return d.ReasonName(source, f), location
}

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
	offset, _, err := clock.Offset()
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

// SetCards tells whether the session has told a card to stamp packets. Undoing that at the end of
// the session needs CAP_NET_ADMIN.
func (s *Session) SetCards() bool {
	s.hooking.Lock()
	defer s.hooking.Unlock()
	return slices.ContainsFunc(s.roster.cards(), func(c card) bool { return c.stamps != nil && c.stamps.stamping != nil })
}
