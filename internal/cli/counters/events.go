package counters

import (
	"context"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// CountingFlags are flags of all counter commands that have no effect where a command prints single
// events in place of counters.
var CountingFlags = []string{"interval", "count", "per-cpu", "listen", "quiet"}

// beginEvents begins a command that prints single events in place of counters, and refuses the
// flags about counters. why names the flag that asks for events: "--record prints single events".
func (o *Options) beginEvents(why string) (context.Context, error) {
	frame.ForgetSettings(o.Flags, CountingFlags...)
	for _, flag := range CountingFlags {
		if o.Flags.Changed(flag) {
			return nil, fmt.Errorf("%s, and --%s is about counters: use one of them", why, flag)
		}
	}
	if err := o.checkPod(); err != nil {
		return nil, err
	}
	if err := frame.CheckPrints(); err != nil {
		return nil, err
	}
	return o.Process.Begin(frame.Guard{Interfaces: o.Interfaces})
}

// enterEvents gives up what the command no longer needs when the meter of its events is open.
func (o *Options) enterEvents(m interface{ Capabilities() []int }) error {
	err := frame.EnterCounters(o.Process, o.keep, false, m.Capabilities())
	if err == nil {
		frame.Say(o.Process.Stderr, "listening on %v", m)
	}
	return err
}
