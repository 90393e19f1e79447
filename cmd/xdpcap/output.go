package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// An outputFile is what -w names. It is opened before anything is attached, so that a path that
// cannot be written stops nothing, and emptied only once packets come, so that a capture which does
// not begin does not cost an older file.
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

// begin empties the file. Only a file can be.
func (o *outputFile) begin() error {
	info, err := o.Stat()
	if err != nil || !info.Mode().IsRegular() || o.File == os.Stdout {
		return err
	}
	return o.Truncate(0)
}

// abandon leaves things as they were before openOutput.
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
		// POLLERR needs no asking for: that is what the end of a pipe without a reader shows.
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
