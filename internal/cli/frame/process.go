package frame

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Process is what commands use of the process that they run in: where it prints, and the signals
// that end it. Each command is handed one, so that nothing of it is global.
type Process struct {
	Stdout *Stdout  // results
	Stderr *Console // everything else

	signalled   context.Context
	endBySignal context.CancelFunc
	begun       chan struct{} // closed by Begin
	hurried     chan struct{}

	where    string                       // --netns or --pod with its value, after a space; "" = neither
	home     *os.File                     // the network namespace that --netns or --pod has left; nil = none
	caught   []os.Signal                  // by CatchSignals
	received chan os.Signal               // gets them
	nohup    bool                         // SIGHUP does not end the process
	taken    atomic.Pointer[func() int64] // by the outputs; nil before they are open
	reload   atomic.Pointer[reloading]    // what SIGHUP does; nil = it ends the process
}

// NewProcess returns a process that prints to these files, and catches no signals yet.
func NewProcess(stdout, stderr *os.File) *Process {
	p := &Process{
		Stdout:  &Stdout{File: stdout},
		Stderr:  NewConsole(stderr),
		hurried: make(chan struct{}),
		begun:   make(chan struct{}),
	}
	p.signalled, p.endBySignal = context.WithCancel(context.Background())
	return p
}

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

// Signalled ends with the first signal to end.
func (p *Process) Signalled() context.Context { return p.signalled }

// Hurried is closed by a signal that ends an ending that hangs. Functions that only wait then
// return, and the command has a second to print the account.
func (p *Process) Hurried() <-chan struct{} { return p.hurried }

// CountTaken sets the function that returns how many bytes the outputs have taken, beside printed
// packets. Any goroutine may call that function, as long as the process runs.
func (p *Process) CountTaken(taken func() int64) { p.taken.Store(&taken) }

// takenSoFar is the number of bytes that all outputs together have taken: an ending makes progress
// while that number grows.
func (p *Process) takenSoFar() int64 {
	n := p.Stdout.taken.Load()
	if taken := p.taken.Load(); taken != nil {
		n += (*taken)()
	}
	return n
}
