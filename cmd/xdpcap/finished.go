package main

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

	"github.com/xdpcap/xdpcap/internal/thread"
)

// commandPatience is how long the end of a capture waits for the commands of -z.
const commandPatience = time.Minute

// finishedFiles are what is told of each finished file: its name goes to standard output, and to a
// command. Neither keeps the capture waiting.
type finishedFiles struct {
	path   string    // of the command; "" = none
	name   string    // as -z has it
	output io.Writer // the command's; nil = nobody's

	running chan struct{} // full while as many commands run as may
	over    sync.WaitGroup

	mu       sync.Mutex
	names    []string // to be printed
	printing bool
	started  int // commands
	failed   int // of these
	ended    int
	first    error       // of a command, or of printing
	told     bool        // whether first was told
	note     func(error) // tells an error at once; nil in wait
}

// newFinishedFiles finds the command before anything is captured.
func newFinishedFiles(o *rotationOptions, output *os.File, note func(error)) (*finishedFiles, error) {
	f := &finishedFiles{name: o.command, note: note, running: make(chan struct{}, runtime.NumCPU())}
	if output != nil {
		f.output = output
	}
	if o.command == "" {
		return f, nil
	}
	var err error
	if f.path, err = exec.LookPath(o.command); err != nil {
		return nil, fmt.Errorf("-z %s: %w: give the name or the path of one command; it gets the file's name as its argument",
			o.command, errors.Unwrap(err))
	}
	return f, nil
}

// print prints a name, and does not wait until somebody reads it.
func (f *finishedFiles) print(file string) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
			_, err := io.WriteString(stdout{}, text)
			f.mu.Lock()
			if err != nil {
				f.fail(explainPrint(err))
			}
		}
		f.printing = false
	})
}

// run runs the command for a file, beside as many others as there are CPUs.
func (f *finishedFiles) run(file string) {
	f.mu.Lock()
	f.started++
	f.mu.Unlock()
	f.over.Go(func() {
		f.running <- struct{}{}
		err := f.command(file)
		<-f.running
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended++
		if err != nil {
			f.fail(fmt.Errorf("-z %s %s: %w", f.name, file, err))
		}
	})
}

// command runs the command with the lowest priority, so that the capture comes first. It has a
// process group of its own, so that Ctrl-C at the terminal does not end it.
func (f *finishedFiles) command(file string) error {
	cmd := exec.Command(f.path, file)
	cmd.Stdout, cmd.Stderr = f.output, f.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A process begins with the priority of the thread that starts it.
	if err := thread.Idle(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// fail tells the first error at once; the others are counted. The caller holds mu.
func (f *finishedFiles) fail(err error) {
	if f.failed++; f.failed > 1 {
		return
	}
	if f.first = err; f.note != nil {
		f.note(err)
		f.told = true
	}
}

// wait waits until all names are printed and all commands have ended, but not for ever. note is
// called from this goroutine alone from now on.
func (f *finishedFiles) wait(note func(error)) {
	over := make(chan struct{})
	f.mu.Lock()
	f.note = nil
	f.mu.Unlock()
	go func() {
		f.over.Wait()
		close(over)
	}()
	limit, soon := time.After(commandPatience), time.After(time.Second)
	for waiting := true; waiting; {
		select {
		case <-over:
			waiting = false
		case <-soon:
			if n := f.left(); n > 0 {
				note(fmt.Errorf("-z %s: waiting for %d to end, for a minute at most", f.name, n))
			}
		case <-limit:
			note(fmt.Errorf("-z %s: %d have not ended, and go on by themselves", f.name, f.left()))
			waiting = false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed > 0 && !f.told {
		note(f.first)
	}
	if f.failed > 1 {
		note(fmt.Errorf("-z %s: failed for %d of %d files", f.name, f.failed, f.started))
	}
}

// left is how many commands have not ended.
func (f *finishedFiles) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started - f.ended
}
