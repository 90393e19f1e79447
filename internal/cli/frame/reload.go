package frame

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// A reloading is what SIGHUP does instead of ending the process.
type reloading struct {
	asked    chan struct{}
	stat     *os.File // /proc/self/stat, which can be read in the sandbox, too; nil = not known
	terminal bool     // whether the process had a controlling terminal
}

// ReloadOnHangup lets SIGHUP call reload, on a goroutine of its own, instead of ending the process,
// until stop is called. But a SIGHUP after the process has lost its terminal ends it: the terminal
// was closed, or the connection to it.
func (p *Process) ReloadOnHangup(reload func()) (stop func()) {
	r := &reloading{asked: make(chan struct{}, 1)}
	if f, err := os.Open("/proc/self/stat"); err == nil {
		r.stat = f
		r.terminal = r.hasTerminal()
	}
	done, ended := make(chan struct{}), make(chan struct{})
	p.reload.Store(r)
	signal.Notify(p.received, unix.SIGHUP) // also under nohup, which means the ending
	go func() {
		defer close(ended)
		for {
			select {
			case <-r.asked:
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

// takes asks for a reload, and returns false if the signal is to end the process.
func (r *reloading) takes() bool {
	if r == nil || r.terminal && !r.hasTerminal() {
		return false
	}
	select {
	case r.asked <- struct{}{}:
	default: // it has been asked for already
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
