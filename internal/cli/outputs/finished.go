package outputs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// commandPatience is the longest time that the end of a capture waits for the commands of -z.
const commandPatience = time.Minute

// Finished prints the name of each file that a capture has finished, and runs the command of -z
// with it. The capture does not wait for either.
type Finished struct {
	Around func(print func()) // calls print, and hides a status line meanwhile; nil = there is no status line

	process *frame.Process

	path   string    // of the command; "" = none
	name   string    // of the command, as given with -z
	output io.Writer // of the command; nil = discarded

	running chan struct{}  // a semaphore of the commands
	over    sync.WaitGroup // of all goroutines

	mu       sync.Mutex
	names    []string // to be printed
	printing bool     // a goroutine prints names
	prints   tally
	commands tally
	begun    int         // commands
	notice   func(error) // prints an error at once; nil during Wait
}

// A tally counts the files for which one of the two jobs was requested, and its results.
type tally struct {
	job                  string // the flag, for messages
	asked, ended, failed int    // files; ended includes failed
	first                error  // the first failure
	noticed              bool   // first was printed
}

func (t *tally) left() int { return t.asked - t.ended }

// maxNames bounds the names that wait to be printed. More names are discarded, with an error.
const maxNames = 10_000

// NewFinished looks up the command in the PATH.
func NewFinished(p *frame.Process, command string, output *os.File, notice func(error)) (*Finished, error) {
	f := &Finished{process: p, name: command, notice: notice, running: make(chan struct{}, runtime.NumCPU())}
	f.prints.job, f.commands.job = "--print-files", "-z "+command
	if output != nil {
		f.output = output
	}
	if command == "" {
		return f, nil
	}
	var err error
	if f.path, err = exec.LookPath(command); err != nil {
		return nil, fmt.Errorf("-z %s: %w: give the name or the path of one command; it gets the file's name as its argument",
			command, errors.Unwrap(err))
	}
	return f, nil
}

// Print prints a name, without waiting for a reader.
func (f *Finished) Print(file string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prints.asked++
	if len(f.names) == maxNames {
		f.fail(&f.prints, fmt.Errorf("--print-files: %d names wait for a reader: %s is not printed", maxNames, file))
		return
	}
	f.names = append(f.names, file)
	if !f.printing {
		f.printing = true
		f.over.Go(f.printNames)
	}
}

// printNames prints names until none is left.
func (f *Finished) printNames() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.names) > 0 {
		text := f.names[0] + "\n"
		f.names = f.names[1:]
		f.mu.Unlock()
		var err error
		print := func() { _, err = io.WriteString(f.process.Stdout, text) }
		if f.Around != nil {
			f.Around(print)
		} else {
			print()
		}
		f.mu.Lock()
		if err != nil {
			f.fail(&f.prints, fmt.Errorf("--print-files: %w", frame.ExplainPrint(err)))
		} else {
			f.prints.ended++
		}
	}
	f.printing = false
}

// Run runs the command for a file. As many commands run at the same time as there are CPUs.
func (f *Finished) Run(file string) {
	f.mu.Lock()
	f.commands.asked++
	f.mu.Unlock()
	f.over.Go(func() {
		f.running <- struct{}{}
		f.mu.Lock()
		f.begun++
		f.mu.Unlock()
		err := f.runCommand(file)
		<-f.running
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.fail(&f.commands, fmt.Errorf("-z %s %s: %w", f.name, file, err))
			return
		}
		f.commands.ended++
	})
}

// HasCommand reports whether a command runs for each file. f may be nil.
func (f *Finished) HasCommand() bool { return f != nil && f.path != "" }

// runCommand runs the command with the lowest priority, so that the capture comes first, and in its
// own process group, so that Ctrl-C at the terminal does not end it.
func (f *Finished) runCommand(file string) error {
	cmd := exec.Command(f.path, file)
	cmd.Stdout, cmd.Stderr = f.output, f.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The priority is set only after the start: a thread with this priority may wait a second for a
	// CPU, and while it starts a command, the reader of packets would wait with it. A command that
	// runs as another user, or has left its group, keeps the normal priority.
	unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, 19)
	return cmd.Wait()
}

// fail prints the first error at once, and counts the others. The caller holds mu.
func (f *Finished) fail(t *tally, err error) {
	t.ended++
	if t.failed++; t.failed > 1 {
		return
	}
	if t.first = err; f.notice != nil {
		f.notice(err)
		t.noticed = true
	}
}

// printPatience is the longest time that the end of a capture waits while no name is read.
const printPatience = 2 * time.Second

// Wait waits until all names are printed and all commands have ended, but at most for
// commandPatience, and not after a further signal to end. From now on only this goroutine calls
// notice.
func (f *Finished) Wait(notice func(error)) {
	over := make(chan struct{})
	f.mu.Lock()
	f.notice = nil
	f.mu.Unlock()
	go func() {
		f.over.Wait()
		close(over)
	}()
	f.await(over, notice)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.commands.left(); n > 0 {
		running := f.begun - f.commands.ended
		notice(fmt.Errorf("-z %s: %d commands have not ended, and go on by themselves; for %d files none was started", f.name, running, n-running))
	}
	if n := f.prints.left(); n > 0 {
		notice(fmt.Errorf("--print-files: nobody has read %d of %d names", n, f.prints.asked))
	}
	for _, t := range []*tally{&f.prints, &f.commands} {
		if t.failed > 0 && !t.noticed {
			notice(t.first)
		}
		if t.failed > 1 {
			notice(fmt.Errorf("%s: failed for %d of %d files", t.job, t.failed, t.asked))
		}
	}
}

// await returns when over is closed, at a limit of Wait, or if only unread names are left.
func (f *Finished) await(over <-chan struct{}, notice func(error)) {
	limit, soon := time.After(commandPatience), time.After(time.Second)
	look := time.NewTicker(printPatience)
	defer look.Stop()
	before := f.left(&f.prints)
	for {
		select {
		case <-over:
			return
		case <-f.process.Hurried():
			return
		case <-limit:
			return
		case <-soon:
			if n := f.left(&f.commands); n > 0 {
				notice(fmt.Errorf("-z %s: waiting for %d commands to end, for a minute at most", f.name, n))
			}
		case <-look.C:
			unread := f.left(&f.prints)
			if unread == before && f.left(&f.commands) == 0 {
				return
			}
			before = unread
		}
	}
}

func (f *Finished) left(t *tally) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.left()
}
