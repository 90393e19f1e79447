package frame

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

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
