package frame

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"
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

// A reloading is the reaction to SIGHUP between ReloadOnHangup and its stop.
type reloading struct {
	requested   chan struct{} // has one element while a reload is pending
	stat        *os.File      // /proc/self/stat, still readable in the sandbox; nil = it could not be opened
	hadTerminal bool          // the process had a controlling terminal when the reloading began
}

// ReloadOnHangup lets SIGHUP call reload, on a goroutine of its own, instead of ending the process,
// until stop is called. But a SIGHUP after the process has lost its terminal ends it: the terminal
// was closed, or the connection to it.
func (p *Process) ReloadOnHangup(reload func()) (stop func()) {
	r := &reloading{requested: make(chan struct{}, 1)}
	if f, err := os.Open("/proc/self/stat"); err == nil {
		r.stat = f
		r.hadTerminal = r.hasTerminal()
	}
	done, ended := make(chan struct{}), make(chan struct{})
	p.reload.Store(r)
	signal.Notify(p.received, unix.SIGHUP) // also under nohup, which is against an ending, not a reload
	go func() {
		defer close(ended)
		for {
			select {
			case <-r.requested:
				reload()
			case <-done:
				return
			}
		}
	}()
	return func() {
		p.reload.Store(nil)
		close(done)
		<-ended
		if r.stat != nil {
			r.stat.Close() // only read
		}
	}
}

// request makes a SIGHUP request a reload. It returns false if the signal must end the process: r
// is nil, or the terminal was closed.
func (r *reloading) request() bool {
	if r == nil || r.hadTerminal && !r.hasTerminal() {
		return false
	}
	select {
	case r.requested <- struct{}{}:
	default: // one is pending
	}
	return true
}

// hasTerminal reports whether the process has a controlling terminal.
func (r *reloading) hasTerminal() bool {
	const terminal = 4 // the field tty_nr, counted from the state behind the name in parentheses
	text, err := io.ReadAll(io.NewSectionReader(r.stat, 0, 1<<12))
	at := bytes.LastIndexByte(text, ')')
	if err != nil || at < 0 {
		return false
	}
	fields := strings.Fields(string(text[at+1:]))
	return len(fields) > terminal && fields[terminal] != "0"
}
