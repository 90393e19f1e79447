package capture

import (
	"fmt"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/support"
)

// chooseStamping finds out how seldom the programs can read the clock, where packets need not have
// its exact time. It is called before they are loaded.
func (k *sampler) chooseStamping() error {
	switch {
	case k.options.Stamp == HostLowprecStamp:
		return k.chooseLowprec()
	case k.options.Stamp.IsCards() && k.options.Transport == TransportRing && k.followPolls() == nil:
		k.stamping = samplerStampingEVERY_UNSTAMPED
	}
	return nil
}

func (k *sampler) chooseLowprec() error {
	tick, err := clock.Tick()
	if err != nil {
		return err
	}
	k.stamping = samplerStampingEVERY_TICK
	k.worth = fmt.Sprintf("that of the last tick of the kernel's clock, which is every %v", tick)
	if k.options.Transport != TransportRing {
		return nil // perf's rings have no place that shows the stamp of the poll that runs
	}
	if err := k.followPolls(); err != nil {
		k.options.notice(fmt.Errorf("time stamps of the type %v are those of the last tick of the kernel's clock, every %v, because it is not known when a poll ends: %w", HostLowprecStamp, tick, err))
		return nil
	}
	k.stamping = samplerStampingEVERY_POLL
	k.worth = fmt.Sprintf("one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every %v", tick)
	return nil
}

// followPolls lets the rings know when a NAPI poll ends.
func (k *sampler) followPolls() error {
	p, err := k.load(loading{name: samplerProgEndPoll})
	if err == nil {
		defer p.Close()
		k.polls, err = link.AttachTracing(link.TracingOptions{Program: p.Program})
	}
	if err != nil {
		return support.ExplainLoad("attach to the tracepoint napi_poll", err)
	}
	return nil
}

// ticks returns nil where stamps are not those of ticks.
func (k *sampler) ticks() *ticks {
	if k.stamping == samplerStampingEVERY_TICK {
		return new(ticks)
	}
	return nil
}

// ticks tells up to where the order is final of packets that have the stamps of the kernel's ticks.
// It is nil where packets have others.
type ticks struct{ last int64 }

// before returns the last tick at or before a time, of which it is known that all records from
// before it are there: later ones have the stamp of this tick, or of a later one. Where the last
// tick came after that time, it returns what it did at the call before.
func (t *ticks) before(until int64) int64 {
	if t == nil {
		return until
	}
	if tick, err := clock.LastTick(); err == nil && tick <= until {
		t.last = tick
	}
	return t.last
}
