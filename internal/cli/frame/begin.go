package frame

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Begin is what every command that attaches something calls first. It checks that the command does
// not cut this machine off. From here on a signal does not kill the process: the context ends with
// the first one, and the command then detaches and prints its totals. It may have come already.
func (p *Process) Begin(g Guard) (context.Context, error) {
	close(p.begun)
	// If the reader of standard output goes away, write returns an error instead of ending the
	// process. The signal is caught instead of ignored, because child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	if err := g.check(); err != nil {
		return nil, err
	}
	return p.signalled, nil
}
