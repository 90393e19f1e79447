package frame

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Process is the process in which a command runs: its output streams, the signals that end it,
// and its network namespace. Each command is handed one, so that no global variable is needed.
type Process struct {
	Stdout *Stdout  // results
	Stderr *Console // everything else

	signalled  context.Context // ends with the first signal to end
	endContext context.CancelFunc
	begun      chan struct{} // closed by Begin
	hurried    chan struct{} // closed by a repeated signal

	where    string                       // " --netns NAME" or " --pod NAME"; "" = the caller's namespace
	home     *os.File                     // the caller's network namespace, with --netns or --pod; else nil
	caught   []os.Signal                  // the signals to end
	received chan os.Signal               // gets them
	nohup    bool                         // SIGHUP does not end the process
	taken    atomic.Pointer[func() int64] // the bytes that outputs have accepted; nil until they are open
	reload   atomic.Pointer[reloading]    // the action of SIGHUP; nil = it ends the process
}

// NewProcess returns a process that prints to these files, and catches no signals yet.
func NewProcess(stdout, stderr *os.File) *Process {
	p := &Process{
		Stdout:  &Stdout{File: stdout},
		Stderr:  NewConsole(stderr),
		hurried: make(chan struct{}),
		begun:   make(chan struct{}),
	}
	p.signalled, p.endContext = context.WithCancel(context.Background())
	return p
}

// Begin is called by every command that attaches something, before it does. It checks that the
// command does not cut this machine off. From here on a signal does not kill the process: the
// returned context ends with the first signal, and the command then detaches and prints its totals.
// The context may have ended already.
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

// UntilSignal returns a context that ends with the first signal to end.
func (p *Process) UntilSignal() context.Context { return p.signalled }

// Hurried is closed when a repeated signal is about to kill the process. Functions that only wait
// must then return, and the command has at least a second to print the account.
func (p *Process) Hurried() <-chan struct{} { return p.hurried }

// CountTaken sets the function that returns how many bytes the outputs have accepted, besides
// standard output. Any goroutine may call that function, as long as the process runs.
func (p *Process) CountTaken(taken func() int64) { p.taken.Store(&taken) }

// bytesTaken is the number of bytes that all outputs together have accepted: an ending makes
// progress while that number grows.
func (p *Process) bytesTaken() int64 {
	n := p.Stdout.taken.Load()
	if taken := p.taken.Load(); taken != nil {
		n += (*taken)()
	}
	return n
}
