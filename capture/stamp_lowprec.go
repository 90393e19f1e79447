package capture

import (
	"fmt"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/support"
)

// chooseStamping finds out how seldom the programs can read the clock if packets need no exact
// time. It is called before the programs are loaded.
func (k *sampler) chooseStamping() error {
	switch {
	case k.options.Stamp == HostLowprecStamp:
		return k.chooseLowprec()
	case k.options.Stamp.IsCards() && k.options.Transport.kind().showsPolls && k.followPolls() == nil:
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
	if !k.options.Transport.kind().showsPolls {
		return nil // perf's rings cannot show the stamp of the current poll
	}
	if err := k.followPolls(); err != nil {
		k.options.notice(fmt.Errorf("time stamps of the type %v have the resolution of the kernel's clock tick, %v, because the end of a poll is not known: %w", HostLowprecStamp, tick, err))
		return nil
	}
	k.stamping = samplerStampingEVERY_POLL
	k.worth = fmt.Sprintf("one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every %v", tick)
	return nil
}

// followPolls attaches the program that marks in the rings when a NAPI poll ends.
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

// ticks returns nil if stamps are not those of clock ticks.
func (k *sampler) ticks() *ticks {
	if k.stamping == samplerStampingEVERY_TICK {
		return new(ticks)
	}
	return nil
}

// ticks tells up to which stamp the order of packets is final if their stamps are clock ticks of
// the kernel. It is nil for other stamps.
type ticks struct{ last int64 }

// before returns the last tick at or before a time. All records from before that tick have arrived:
// later records have the stamp of this tick or of a later one. If the kernel's last tick is later
// than the time, it returns the same tick as the previous call.
func (t *ticks) before(until int64) int64 {
	if t == nil {
		return until
	}
	if tick, err := clock.LastTick(); err == nil && tick <= until {
		t.last = tick
	}
	return t.last
}
