package probe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// VLANRestore is whether VLAN tags that a card has stripped are put back into packets at XDP.
type VLANRestore int

const (
	VLANRestoreAuto VLANRestore = iota
	VLANRestoreOn
	VLANRestoreOff
)

// A Stamp is the clock that stamps packets.
type Stamp int

const (
	HostStamp Stamp = iota
	HostLowprecStamp
	AdapterStamp
	AdapterUnsyncedStamp
)

var stampNames = [...]string{"host", "host_lowprec", "adapter", "adapter_unsynced"}

// IsCards reports whether the card stamps the packets.
func (s Stamp) IsCards() bool { return s == AdapterStamp || s == AdapterUnsyncedStamp }

func (s Stamp) String() string {
	if s < 0 || int(s) >= len(stampNames) {
		return fmt.Sprintf("stamp %d", int(s))
	}
	return stampNames[s]
}

// ParseStamp reads the name of a Stamp.
func ParseStamp(name string) (Stamp, error) {
	if i := slices.Index(stampNames[:], name); i >= 0 {
		return Stamp(i), nil
	}
	return 0, fmt.Errorf("time stamp type %q: must be host, host_lowprec, adapter or adapter_unsynced", name)
}

// StampTypes returns the stamps that packets of the interface can have.
func StampTypes(name string) ([]Stamp, error) {
	ifi, err := xdp.EthernetInterface(name)
	if err != nil {
		return nil, err
	}
	types := []Stamp{HostStamp, HostLowprecStamp}
	for _, s := range []Stamp{AdapterStamp, AdapterUnsyncedStamp} {
		if o := (Options{Stamp: s}); o.whyNoStamps(Point{Interface: ifi}) == nil {
			types = append(types, s)
		}
	}
	return types, nil
}

// CardStamps converts the card's raw stamps of a source to packet stamps. nil is for a source whose
// packets have the host's stamps: begin, end and Close then do nothing, and the other methods must
// not be called.
type CardStamps struct {
	Kind     Stamp
	notice   func(error)
	Clock    *machine.CardClock // nil without AdapterStamp
	failed   bool               // a notice was given that a comparison with the system's clock failed
	stamping *xdp.Stamping      // nil if the card stamped all packets already, or cannot do so
}

// open opens the card's clock, if the stamps are compared with that of the system.
func (c *CardStamps) open(ifi *xdp.Interface) (err error) {
	if c.Kind != AdapterStamp {
		return nil
	}
	number, _ := ifi.PTPClock()
	if c.Clock, err = machine.OpenCardClock(number); err != nil {
		return message.Errorf(ErrNoClock, "time stamps of the type %v for %s: %w", c.Kind, ifi.Name, err)
	}
	return nil
}

// begin makes the card stamp all packets.
func (c *CardStamps) begin(ifi *xdp.Interface) (err error) {
	if c == nil {
		return nil
	}
	c.stamping, err = xdp.StampAll(ifi)
	if errors.Is(err, xdp.ErrStamping) {
		c.notice(fmt.Errorf("cannot tell the card to stamp all packets, and those that it does not stamp have the host's stamps: %w", err))
		return nil
	}
	return err
}

// end restores the settings that begin has changed. It may be called again.
func (c *CardStamps) end() error {
	if c == nil || c.stamping == nil {
		return nil
	}
	s := c.stamping
	c.stamping = nil
	return s.Close()
}

func (c *CardStamps) Close() error {
	if c == nil || c.Clock == nil {
		return nil
	}
	return c.Clock.Close()
}

// farStamp is the largest difference of the card's stamp to the host's, in ns. A stamp farther away
// is not used: the clock was set since it was last compared, or the driver's value is not a time.
const farStamp = int64(time.Second)

// convert returns the stamp of a packet from the card's raw stamp, or 0 if that cannot be used.
// host is the packet's time by the host's clock, and offset the difference of that clock to
// CLOCK_MONOTONIC, both in ns.
func (c *CardStamps) convert(card uint64, host, offset int64) int64 {
	switch {
	case card == 0 || card > math.MaxInt64:
		return 0
	case c.Kind == AdapterUnsyncedStamp:
		return int64(card)
	}
	stamp := c.Clock.Monotonic(int64(card)) + offset
	if stamp-host > farStamp || host-stamp > farStamp {
		return 0
	}
	return stamp
}

// Clock returns the card's clock; nil if it is not compared with the system's.
func (c *Card) Clock() *machine.CardClock {
	if c.Stamps == nil {
		return nil
	}
	return c.Stamps.Clock
}

// IsStamping reports whether the session made the card stamp packets.
func (c *Card) IsStamping() bool { return c.Stamps != nil && c.Stamps.stamping != nil }

// MeasureClocks compares the cards' clocks with the system's.
func MeasureClocks(cards []Card, notice func(error)) {
	for _, c := range cards {
		stamps := c.Stamps
		if stamps == nil || stamps.Clock == nil {
			continue
		}
		if err := stamps.Clock.Measure(); err != nil && !stamps.failed {
			stamps.failed = true
			notice(fmt.Errorf("the card's clock cannot be compared again, and its stamps use the last comparison: %w", err))
		}
	}
}

// ChooseStamping chooses how seldom the programs read the clock if packets need no exact host's
// time. For stamps that are shared by the packets of a NAPI poll it also attaches the program that
// marks the end of a poll. It is called before the other programs are loaded.
func (k *Sampler) ChooseStamping() error {
	if k.Options.Stamp == HostLowprecStamp {
		return k.useLowprec()
	}
	if k.Options.Stamp.IsCards() && k.Rings.ShowsPolls() {
		if err := k.attachEndPoll(); err == nil { // otherwise the clock is read for each packet
			k.Stamping = kernel.SamplerStampingEVERY_UNSTAMPED
		}
	}
	return nil
}

// useLowprec sets the stamps of HostLowprecStamp: one for each poll or, where the rings or the
// kernel do not tell polls apart, those of the last tick of the kernel's clock.
func (k *Sampler) useLowprec() error {
	tick, err := machine.ClockTick()
	if err != nil {
		return err
	}
	k.Stamping = kernel.SamplerStampingEVERY_TICK
	k.Stamps = fmt.Sprintf("that of the last tick of the kernel's clock, which is every %v", tick)
	if !k.Rings.ShowsPolls() {
		k.Rings.UseTicks()
		return nil // perf's rings cannot show the stamp of the current poll
	}
	if err := k.attachEndPoll(); err != nil {
		k.Options.Notice(fmt.Errorf("time stamps of the type %v have the resolution of the kernel's clock tick, %v, because the end of a poll is not known: %w", HostLowprecStamp, tick, err))
		k.Rings.UseTicks()
		return nil
	}
	k.Stamping = kernel.SamplerStampingEVERY_POLL
	k.Stamps = fmt.Sprintf("one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every %v", tick)
	return nil
}

// attachEndPoll attaches the program that marks in the rings when a NAPI poll ends.
func (k *Sampler) attachEndPoll() error {
	p, err := k.Load(Loading{Name: kernel.SamplerProgXdpcapEndPoll})
	if err == nil {
		defer p.Close()
		k.polls, err = link.AttachTracing(link.TracingOptions{Program: p})
	}
	if err != nil {
		return support.ExplainLoad("attach to the tracepoint napi_poll", err)
	}
	return nil
}
