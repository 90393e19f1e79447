package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
)

// begin is what every command that attaches something calls first. It checks that the command may
// do so and does not cut this machine off, and it catches signals, because a signal that finds no
// handler would leave the command no time to detach and to print its totals. The context ends with
// a signal to end.
func begin(g guard) (ctx context.Context, cancel context.CancelFunc, err error) {
	// When the reader of standard output goes away, write returns an error instead of ending the
	// process.
	signal.Ignore(unix.SIGPIPE)
	if err := support.CheckPrivileges(); err != nil {
		return nil, nil, err
	}
	if err := g.check(); err != nil {
		return nil, nil, err
	}
	ctx, cancel = untilSignal()
	return ctx, cancel, nil
}

// untilSignal returns a context that ends with a signal to end. A second signal has its default
// effect again, so that it kills a process that hangs in a write.
func untilSignal() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) { // nohup ignores it
		signals = append(signals, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
