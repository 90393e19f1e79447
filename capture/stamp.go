package capture

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// StampTypes returns the stamps that packets of the interface can have, the host's first.
func StampTypes(name string) ([]Stamp, error) {
	ifi, err := xdp.EthernetInterface(name)
	if err != nil {
		return nil, err
	}
	types := []Stamp{HostStamp, HostLowprecStamp}
	for _, s := range []Stamp{AdapterStamp, AdapterUnsyncedStamp} {
		if o := (Options{Stamp: s}); o.lacksStamps(point{ifi: ifi}) == nil {
			types = append(types, s)
		}
	}
	return types, nil
}

// cardStamps converts the card's raw stamps of a source to packet stamps. nil is for a source whose
// packets have the host's stamps.
type cardStamps struct {
	kind     Stamp
	notice   func(error)
	clock    *machine.CardClock // nil without AdapterStamp
	failed   bool               // a comparison with the system's clock failed, and a notice said so
	stamping *xdp.Stamping      // nil if the card stamped all packets already, or cannot be told to
}

// open opens the clock.
func (c *cardStamps) open(ifi *xdp.Interface) (err error) {
	if c.kind != AdapterStamp {
		return nil
	}
	number, _ := ifi.PTPClock()
	if c.clock, err = machine.OpenCardClock(number); err != nil {
		return errkind.Errorf(ErrNoClock, "time stamps of the type %v for %s: %w", c.kind, ifi.Name, err)
	}
	return nil
}

// begin tells the card to stamp all packets.
func (c *cardStamps) begin(ifi *xdp.Interface) (err error) {
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

// end restores what begin has set. It may be called again.
func (c *cardStamps) end() error {
	if c == nil || c.stamping == nil {
		return nil
	}
	s := c.stamping
	c.stamping = nil
	return s.Close()
}

func (c *cardStamps) close() error {
	if c == nil || c.clock == nil {
		return nil
	}
	return c.clock.Close()
}

// farStamp is how far the card's stamp may be from the host's, in ns. A stamp farther away is not
// used: the clock was set since it was last compared, or the driver's value is not a time.
const farStamp = int64(time.Second)

// at returns the stamp of a packet from the card's raw stamp, or 0 if that cannot be used. host is
// the packet's time by the host's clock, and offset the difference of that clock to
// CLOCK_MONOTONIC.
func (c *cardStamps) at(card uint64, host, offset int64) int64 {
	switch {
	case card == 0 || card > math.MaxInt64:
		return 0
	case c.kind == AdapterUnsyncedStamp:
		return int64(card)
	}
	stamp := c.clock.Monotonic(int64(card)) + offset
	if stamp-host > farStamp || host-stamp > farStamp {
		return 0
	}
	return stamp
}

// A CardClock says how a card's clock relates to the system's.
type CardClock struct {
	Name   string        // /dev/ptp0
	Ahead  time.Duration // how far it was ahead of CLOCK_REALTIME when last measured
	Within time.Duration // Ahead is wrong by at most half of this
	Faster float64       // how much faster it is than the system's: 1e-6 is 1 us per second; 0 = not known yet
}

func (c CardClock) String() string {
	return fmt.Sprintf("%s is %v ahead of the system's clock, within %v, and gains %.3f us per second", c.Name, c.Ahead, c.Within/2, c.Faster*1e6)
}

// measureClocks compares the cards' clocks with the system's.
func measureClocks(cards []card, notice func(error)) {
	for _, c := range cards {
		stamps := c.stamps
		if stamps == nil || stamps.clock == nil {
			continue
		}
		if err := stamps.clock.Measure(); err != nil && !stamps.failed {
			stamps.failed = true
			notice(fmt.Errorf("the card's clock cannot be compared again, and its stamps use the last comparison: %w", err))
		}
	}
}

// chooseStamping finds out how seldom the programs can read the clock if packets need no exact
// time. It is called before the programs are loaded.
func (k *sampler) chooseStamping() error {
	switch {
	case k.options.Stamp == HostLowprecStamp:
		return k.chooseLowprec()
	case k.options.Stamp.IsCards() && k.rings.ShowsPolls() && k.followPolls() == nil:
		k.stamping = kernel.SamplerStampingEVERY_UNSTAMPED
	}
	return nil
}

func (k *sampler) chooseLowprec() error {
	tick, err := machine.ClockTick()
	if err != nil {
		return err
	}
	k.stamping = kernel.SamplerStampingEVERY_TICK
	k.worth = fmt.Sprintf("that of the last tick of the kernel's clock, which is every %v", tick)
	if !k.rings.ShowsPolls() {
		return nil // perf's rings cannot show the stamp of the current poll
	}
	if err := k.followPolls(); err != nil {
		k.options.notice(fmt.Errorf("time stamps of the type %v have the resolution of the kernel's clock tick, %v, because the end of a poll is not known: %w", HostLowprecStamp, tick, err))
		return nil
	}
	k.stamping = kernel.SamplerStampingEVERY_POLL
	k.worth = fmt.Sprintf("one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every %v", tick)
	return nil
}

// followPolls attaches the program that marks in the rings when a NAPI poll ends.
func (k *sampler) followPolls() error {
	p, err := k.load(loading{name: kernel.SamplerProgXdpcapEndPoll})
	if err == nil {
		defer p.Close()
		k.polls, err = link.AttachTracing(link.TracingOptions{Program: p})
	}
	if err != nil {
		return support.ExplainLoad("attach to the tracepoint napi_poll", err)
	}
	return nil
}
