package main

import (
	"context"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
)

// begin is what every command that attaches something calls first. It catches signals, because a
// signal that finds no handler would leave the command no time to detach and to print its totals,
// and it checks that the command may do what it is about to do and does not cut this machine off.
// The context ends with a signal to end.
func begin(g guard) (context.Context, error) {
	ctx := untilSignal()
	// When the reader of standard output goes away, write returns an error instead of ending the
	// process.
	signal.Ignore(unix.SIGPIPE)
	if err := support.CheckPrivileges(); err != nil {
		return nil, err
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	return ctx, nil
}
