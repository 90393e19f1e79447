package frame

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long an ending may write nothing before a repeated signal ends the process.
const patience = time.Second

var (
	// Signalled ends with the first signal to end. begun is closed by begin, which a command calls
	// when it is ready to end by itself once signalled has ended.
	Signalled, endBySignal = context.WithCancel(context.Background())
	begun                  = make(chan struct{})

	// Hurried is closed by a signal that is to end an ending that hangs. What only waits gives up
	// then, and has a second to print the account.
	Hurried = make(chan struct{})
)

// caught are the signals that catchSignals catches.
var caught []os.Signal

// CatchSignals catches the signals to end from now on, until the process exits. It is called first.
// taken is how many bytes all outputs have taken together, by which an ending is seen to go on.
//
// A signal that comes before begin does not kill the process at once: a capture that has just been
// started still gets a second to call begin, and then leaves a file and closing lines.
//
// After begin a command ends by itself. The second signal, if it comes within a second, is taken
// for the first one again: timeout(1) signals its child and then the child's group, and a terminal
// that is closed hangs up twice. Any other ends the process as soon as the outputs have taken
// nothing for a second, so that an ending that hangs can be ended and one that makes progress is
// not cut short.
func CatchSignals(taken func() int64) {
	caught = []os.Signal{unix.SIGINT, unix.SIGTERM}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) { // nohup ignores SIGHUP, and a shell SIGQUIT in the background
			caught = append(caught, sig)
		}
	}
	received := make(chan os.Signal, 16)
	signal.Notify(received, caught...)
	go func() {
		sig := <-received
		first := time.Now()
		endBySignal()
		select {
		case <-begun:
			sig = <-received
			if time.Since(first) < patience {
				sig = <-received
			}
			close(Hurried)
			waitForStandstill(taken)
		case <-time.After(patience):
		}
		dieBy(sig.(syscall.Signal))
	}()
}

// letSignalsKill undoes catchSignals. A signal that has come already kills the process now.
func letSignalsKill() {
	signal.Reset(caught...)
	if Signalled.Err() != nil {
		dieBy(unix.SIGTERM)
	}
}

// waitForStandstill returns when the outputs have taken nothing for a while.
func waitForStandstill(taken func() int64) {
	for before := int64(-1); before != taken(); time.Sleep(patience) {
		before = taken()
	}
}

// dieBy ends the process as a signal does that nobody catches. Go would print every goroutine after
// SIGQUIT, on a stderr that may be what the ending hangs in, so that one becomes SIGTERM.
func dieBy(sig syscall.Signal) {
	if sig == unix.SIGQUIT {
		sig = unix.SIGTERM
	}
	signal.Reset(sig)
	unix.Kill(unix.Getpid(), sig)
	time.Sleep(patience)
	os.Exit(128 + int(sig)) // the process was started with this signal ignored
}
