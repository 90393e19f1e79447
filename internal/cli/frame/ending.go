package frame

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the time without progress after which a repeated signal ends the process.
const patience = time.Second

var (
	// Signalled ends with the first signal to end. begun is closed by begin, which a command calls
	// when it can end by itself as soon as Signalled has ended.
	Signalled, endBySignal = context.WithCancel(context.Background())
	begun                  = make(chan struct{})

	// Hurried is closed by a signal that ends an ending that hangs. Functions that only wait then
	// return, and the command has a second to print the account.
	Hurried = make(chan struct{})
)

// caught are the signals that catchSignals catches.
var caught []os.Signal

// CatchSignals catches the signals to end from now on, until the process exits. It is called first.
// taken returns the number of bytes that all outputs together have taken: an ending makes progress
// while that number grows.
//
// A signal that comes before begin does not kill the process at once: a capture that has just been
// started still gets a second to call begin, and then leaves a file and closing lines.
//
// After begin a command ends by itself. A second signal within a second counts as the first one,
// because timeout(1) signals its child and then the child's group, and a closed terminal hangs up
// twice. Any other signal ends the process as soon as the outputs have taken nothing for a second.
// So an ending that hangs can be ended, and one that makes progress is not cut short.
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

// waitForStandstill returns when the outputs have taken nothing for the time of patience.
func waitForStandstill(taken func() int64) {
	for before := int64(-1); before != taken(); time.Sleep(patience) {
		before = taken()
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
