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

// Finished announces each file that a capture has finished: it prints its name to standard output,
// and runs the command of -z with it. Neither makes the capture wait.
type Finished struct {
	Around func(print func()) // calls print, if the terminal shows something that must make room; nil: nothing does

	process *frame.Process

	path   string    // of the command; "" = none
	name   string    // of the command, as -z names it
	output io.Writer // of the command; nil = discarded

	running chan struct{} // full while as many commands run as are allowed
	over    sync.WaitGroup

	mu       sync.Mutex
	names    []string // to be printed
	printing bool
	prints   tally
	commands tally
	begun    int         // of the commands
	note     func(error) // prints an error at once; nil during Wait
}

// A tally counts what was asked for files, and how it ended.
type tally struct {
	what                 string // as errors name it
	asked, ended, failed int
	first                error // of those that failed
	told                 bool  // whether first was printed
}

func (t *tally) left() int { return t.asked - t.ended }

// maxNames is how many names may wait to be printed. More are not printed.
const maxNames = 10_000

// NewFinished looks the command up before anything is captured.
func NewFinished(p *frame.Process, command string, output *os.File, note func(error)) (*Finished, error) {
	f := &Finished{process: p, name: command, note: note, running: make(chan struct{}, runtime.NumCPU())}
	f.prints.what, f.commands.what = "--print-files", "-z "+command
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
	if f.printing {
		return
	}
	f.printing = true
	f.over.Go(func() {
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
			if err == nil {
				f.prints.ended++
				continue
			}
			f.fail(&f.prints, fmt.Errorf("--print-files: %w", frame.ExplainPrint(err)))
		}
		f.printing = false
	})
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
		err := f.command(file)
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

// command runs the command, and gives it the lowest priority once it has started, so that the
// capture comes first. It has a process group of its own, so that Ctrl-C at the terminal does not
// end it.
func (f *Finished) command(file string) error {
	cmd := exec.Command(f.path, file)
	cmd.Stdout, cmd.Stderr = f.output, f.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The priority is set after the start. A thread with this priority may wait a second for a CPU,
	// and while it starts a command, the reader of packets waits with it. A command that runs as
	// another user, or has left its group, keeps the normal priority.
	unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, 19)
	return cmd.Wait()
}

// fail prints the first error at once, and counts the others. The caller holds mu.
func (f *Finished) fail(t *tally, err error) {
	t.ended++
	if t.failed++; t.failed > 1 {
		return
	}
	if t.first = err; f.note != nil {
		f.note(err)
		t.told = true
	}
}

// printPatience is the longest time that the end of a capture waits for a reader of names that
// takes none.
const printPatience = 2 * time.Second

// Wait waits until all names are printed and all commands have ended, for a limited time, and until
// a further signal to end. From now on only this goroutine calls note.
func (f *Finished) Wait(note func(error)) {
	over := make(chan struct{})
	f.mu.Lock()
	f.note = nil
	f.mu.Unlock()
	go func() {
		f.over.Wait()
		close(over)
	}()
	f.await(over, note)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.commands.left(); n > 0 {
		running := f.begun - f.commands.ended
		note(fmt.Errorf("-z %s: %d commands have not ended, and go on by themselves; for %d files none was started", f.name, running, n-running))
	}
	if n := f.prints.left(); n > 0 {
		note(fmt.Errorf("--print-files: nobody has read %d of %d names", n, f.prints.asked))
	}
	for _, t := range []*tally{&f.prints, &f.commands} {
		if t.failed > 0 && !t.told {
			note(t.first)
		}
		if t.failed > 1 {
			note(fmt.Errorf("%s: failed for %d of %d files", t.what, t.failed, t.asked))
		}
	}
}

// await returns when over is closed, or when waiting any longer is of no use.
func (f *Finished) await(over <-chan struct{}, note func(error)) {
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
				note(fmt.Errorf("-z %s: waiting for %d commands to end, for a minute at most", f.name, n))
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
