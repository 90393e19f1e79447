package frame

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the time without progress after which a repeated signal ends the process.
const patience = time.Second

// CatchSignals catches the signals to end from now on, until the process exits. It is called first.
//
// A signal that comes before begin does not kill the process at once: a capture that has just been
// started still gets a second to call begin, and then leaves a file and closing lines.
//
// After begin a command ends by itself. A second signal within a second counts as the first one,
// because timeout(1) signals its child and then the child's group, and a closed terminal hangs up
// twice. Any other signal ends the process as soon as the outputs have taken nothing for a second.
// So an ending that hangs can be ended, and one that makes progress is not cut short.
//
// After ReloadOnHangup, SIGHUP is no signal to end.
func (p *Process) CatchSignals() {
	p.caught = []os.Signal{unix.SIGINT, unix.SIGTERM}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) { // nohup ignores SIGHUP, and a shell SIGQUIT in the background
			p.caught = append(p.caught, sig)
		}
	}
	p.received, p.nohup = make(chan os.Signal, 16), signal.Ignored(unix.SIGHUP)
	signal.Notify(p.received, p.caught...)
	next := func() os.Signal {
		for {
			if sig := <-p.received; sig != unix.SIGHUP || !p.reload.Load().takes() && !p.nohup {
				return sig
			}
		}
	}
	go func() {
		sig := next()
		first := time.Now()
		p.endBySignal()
		select {
		case <-p.begun:
			sig = next()
			if time.Since(first) < patience {
				sig = next()
			}
			close(p.hurried)
			p.waitForStandstill()
		case <-time.After(patience):
		}
		dieBy(sig.(syscall.Signal))
	}()
}

// letSignalsKill undoes CatchSignals. A signal that has come already kills the process now.
func (p *Process) letSignalsKill() {
	signal.Reset(p.caught...)
	if p.signalled.Err() != nil {
		dieBy(unix.SIGTERM)
	}
}

// waitForStandstill returns when the outputs have taken nothing for the time of patience.
func (p *Process) waitForStandstill() {
	for before := int64(-1); before != p.takenSoFar(); time.Sleep(patience) {
		before = p.takenSoFar()
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
