package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// An outputFile is what -w names. It is opened before anything is attached, so that nothing is
// attached if the path cannot be written. It is emptied only when the capture begins, so that a
// capture that cannot begin leaves an older file as it was.
type outputFile struct {
	*os.File
	name    string
	created bool
}

var stdout = &outputFile{File: os.Stdout, name: "standard output"}

func openOutput(path string) (*outputFile, error) {
	if path == "-" {
		if term.IsTerminal(int(os.Stdout.Fd())) {
			return nil, errors.New("-w -: standard output is a terminal; pipe it into a program, or leave -w away to see packets")
		}
		return stdout, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	created := err == nil
	if errors.Is(err, os.ErrExist) {
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("-w: %w: choose a file that this user can write", err)
	}
	return &outputFile{File: f, name: path, created: created}, nil
}

// Write notes what the file has taken, by which an ending is seen to make progress.
func (o *outputFile) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	written.Add(int64(n))
	return n, err
}

// begin empties a regular file. A pipe or terminal cannot be emptied.
func (o *outputFile) begin() error {
	info, err := o.Stat()
	if err != nil || !info.Mode().IsRegular() || o.File == os.Stdout {
		return err
	}
	return o.Truncate(0)
}

// abandon closes the file, and removes it if openOutput created it.
func (o *outputFile) abandon() {
	o.Close()
	if o.created {
		os.Remove(o.name)
	}
}

// explain names the output in an error of writing to it.
func (o *outputFile) explain(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("%s: its reader has gone away", o.name)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("write packets to %s: %w", o.name, err)
}

// A readerWatch notices that the reader of a pipe has gone also when nothing is written to it.
type readerWatch struct {
	wake     int
	finished chan struct{}
}

// watchReader calls gone at most once, from another goroutine, until stop returns.
func watchReader(f *os.File, gone func()) (*readerWatch, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch the reader of %s: %w", f.Name(), err)
	}
	w := &readerWatch{wake: wake, finished: make(chan struct{})}
	go func() {
		defer close(w.finished)
		// poll reports POLLERR without being asked for it. The writing end of a pipe shows that
		// when its reader has gone.
		fds := []unix.PollFd{{Fd: int32(f.Fd())}, {Fd: int32(wake), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil || fds[1].Revents != 0:
				return
			case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
				gone()
				return
			}
		}
	}()
	return w, nil
}

func (w *readerWatch) stop() {
	one := [8]byte{1}
	unix.Write(w.wake, one[:])
	<-w.finished
	unix.Close(w.wake)
}
