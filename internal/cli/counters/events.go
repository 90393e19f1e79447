package counters

import (
	"context"
	"errors"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/sandbox"
)

// RunEvents runs a counter command that prints single events of one meter, in place of counters.
// print prints them until the context is done, or earlier, and closes the meter.
func RunEvents[M interface {
	Capabilities() []int
	Close() error
}](o *Options, g frame.Guard, open func(iface string) (M, error), print func(context.Context, M) error) error {
	if err := o.checkPod(); err != nil {
		return err
	}
	if err := frame.CheckPrints(); err != nil {
		return err
	}
	g.Interfaces = o.Interfaces
	ctx, err := o.Process.Begin(g)
	if err != nil {
		return err
	}
	iface := ""
	if len(o.Interfaces) > 0 {
		iface = o.Interfaces[0]
	}
	m, err := open(iface)
	if err != nil {
		return err
	}
	if err := sandbox.EnterCounters(o.Process, o.keep, false, m.Capabilities()); err != nil {
		return errors.Join(err, m.Close())
	}
	frame.Say(o.Process.Stderr, "listening on %v", m)
	ctx, cancel := frame.ForDuration(ctx, o.Duration)
	defer cancel()
	return print(ctx, m)
}
