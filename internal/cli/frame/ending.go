package frame

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the time without progress after which a repeated signal kills the process.
const patience = time.Second

// CatchSignals catches the signals to end from now on, until the process exits. Main calls it
// first.
//
// A signal before Begin does not kill the process at once: a capture that has just been started
// still gets a second to call Begin, and then leaves a file and closing lines.
//
// After Begin the first signal ends the context, and the command then detaches and returns. A
// second signal within a second counts as the first one, because timeout(1) signals its child and
// then the child's group, and a closed terminal hangs up twice. A later signal kills the process,
// but only after a second in which the outputs have accepted no byte. So an ending that hangs can
// be ended, and one that makes progress is not cut short.
//
// Between ReloadOnHangup and its stop, SIGHUP is no signal to end.
func (p *Process) CatchSignals() {
	p.caught = []os.Signal{unix.SIGINT, unix.SIGTERM}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) { // nohup ignores SIGHUP, and a shell SIGQUIT in the background
			p.caught = append(p.caught, sig)
		}
	}
	p.received, p.nohup = make(chan os.Signal, 16), signal.Ignored(unix.SIGHUP)
	signal.Notify(p.received, p.caught...)
	go p.endBySignals()
}

// endBySignals ends the context at the first signal to end, and the process at a later one, as
// CatchSignals describes.
func (p *Process) endBySignals() {
	sig := p.nextSignalToEnd()
	first := time.Now()
	p.endContext()
	select {
	case <-p.begun:
		sig = p.nextSignalToEnd()
		if time.Since(first) < patience {
			sig = p.nextSignalToEnd()
		}
		close(p.hurried)
		p.waitForStandstill()
	case <-time.After(patience):
	}
	dieBy(sig.(syscall.Signal))
}

// nextSignalToEnd waits for a signal to end. It passes over a SIGHUP that requests a reload, or
// that nohup has made ineffective.
func (p *Process) nextSignalToEnd() os.Signal {
	for {
		if sig := <-p.received; sig != unix.SIGHUP || !p.reload.Load().request() && !p.nohup {
			return sig
		}
	}
}

// letSignalsKill undoes CatchSignals. If a signal was received already, it kills the process now.
func (p *Process) letSignalsKill() {
	signal.Reset(p.caught...)
	if p.signalled.Err() != nil {
		dieBy(unix.SIGTERM)
	}
}

// waitForStandstill returns when the outputs have accepted no byte for the time of patience.
func (p *Process) waitForStandstill() {
	for before := int64(-1); before != p.bytesTaken(); time.Sleep(patience) {
		before = p.bytesTaken()
	}
}

// dieBy ends the process as an uncaught signal does. It uses SIGTERM in place of SIGQUIT: after
// SIGQUIT Go prints every goroutine to stderr, on which the ending may hang.
func dieBy(sig syscall.Signal) {
	if sig == unix.SIGQUIT {
		sig = unix.SIGTERM
	}
	signal.Reset(sig)
	unix.Kill(unix.Getpid(), sig)
	time.Sleep(patience)
	os.Exit(128 + int(sig)) // the process was started with this signal ignored
}
