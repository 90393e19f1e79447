package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// openOutput opens what -w names before anything is attached, so that nothing is attached if the
// path cannot be written. series is nil for one file. A file that is there already is written over,
// unless noOverwrite forbids it.
func openOutput(path string, series *capture.Rotation, noOverwrite bool, o capture.WriterOptions) (*capture.File, error) {
	if isStdout(path) {
		if err := checkTakesFile(path); err != nil {
			return nil, err
		}
		o.Name = stdoutName
		f, err := capture.NewFile(os.Stdout, o)
		if input := (inputError{}); errors.As(err, &input) {
			return nil, inputError{path}
		}
		return f, err
	}
	if series == nil {
		series = &capture.Rotation{Path: func(capture.Place) string { return path }}
	}
	series.NoOverwrite = noOverwrite
	f, err := capture.OpenFiles(*series, o)
	if input := (inputError{}); errors.As(err, &input) {
		return nil, inputError{path}
	}
	if err != nil {
		return nil, fmt.Errorf("-w: %w", err)
	}
	return f, nil
}

// An inputError refuses to write over a file that is read.
type inputError struct{ path string }

func (e inputError) Error() string {
	return fmt.Sprintf("-w %s: it is one of the files that are read: choose another one", e.path)
}

// openFile opens a file that -w names, or the first one of a series, whose other files are tried.
func (d *destinations) openFile(ctx context.Context, t *target) (file *capture.File, err error) {
	o, flags := d.writer(t), d.flags
	box := &flags.sandbox
	var series *capture.Rotation
	if t.name == flags.write && flags.series != nil {
		series = flags.series
		series.NoOverwrite = flags.rotate.noOverwrite
		o.Owners = box.opener().Trust(t.name).Owners
		if err := box.try(func() error { return capture.TryFiles(*series, o) }); err != nil {
			return nil, fmt.Errorf("-w: %w", err)
		}
	}
	err = box.opener().Open(t.name, func(trust outfile.Trust) error {
		o.Owners, o.NoLinks = trust.Owners, trust.NoLinks
		return awaitReader(ctx, func() error {
			file, err = openOutput(t.name, series, flags.rotate.noOverwrite, o)
			return err
		})
	})
	return file, err
}

// awaitReader opens a file again and again while that is a FIFO that nobody reads from. Its error
// is that of the last time when the context ends.
func awaitReader(ctx context.Context, open func() error) error {
	for {
		err := open()
		if !errors.Is(err, capture.ErrNoReader) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isStdout tells whether -w names standard output.
func isStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// checkTakesFile refuses to write a capture file to a terminal or to nobody. path is what -w names.
func checkTakesFile(path string) error {
	if term.IsTerminal(int(os.Stdout.Fd())) {
		return fmt.Errorf("-w %s: standard output is a terminal; pipe it into a program, or omit -w to see packets", path)
	}
	if err := checkNotClosed("packets", "-w /dev/null"); err != nil {
		return fmt.Errorf("-w %s: %w", path, err)
	}
	return nil
}

// isStdoutClosed tells whether standard output was closed when the process was started. Go's
// runtime has opened /dev/null in its place by then, for reading and writing. A caller that has
// done so itself looks the same, as Python with DEVNULL. A shell opens /dev/null for writing alone.
func isStdoutClosed() bool {
	var is unix.Stat_t
	if err := unix.Fstat(unix.Stdout, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFCHR || is.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	mode, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR
}

// checkNotClosed refuses a standard output that is closed, because what is written to it would be
// lost without a word. drop is what a user says to ask for just that.
func checkNotClosed(what, drop string) error {
	if !isStdoutClosed() {
		return nil
	}
	return fmt.Errorf("standard output is closed, or /dev/null opened for reading and writing, and takes no %s: "+
		"open it, or say %s to drop them", what, drop)
}

// checkPrints refuses a command that would measure, and print what it has found to nobody.
func checkPrints() error {
	if err := checkNotClosed("results", ">/dev/null"); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// progress is what the outputs have taken, by which an ending is seen to go on.
type progress struct {
	destinations atomic.Pointer[[]destination] // nil before they are open
	recorded     atomic.Pointer[capture.File]  // the recorder's last one; nil = none
	printed      atomic.Int64                  // bytes
}

var written progress

// bytes is how many bytes all outputs have taken together.
func (p *progress) bytes() int64 {
	n := p.printed.Load()
	if all := p.destinations.Load(); all != nil {
		n += sizeOf(*all)
	}
	if f := p.recorded.Load(); f != nil {
		n += f.Size()
	}
	return n
}

const stdoutName = "standard output"

// A stdout is standard output where packets are printed to it.
type stdout struct{}

func (stdout) Write(b []byte) (int, error) {
	n, err := os.Stdout.Write(b)
	written.printed.Add(int64(n))
	return n, err
}

// checkStdout finds out that the reader of a pipe has gone also when nothing is printed.
func checkStdout() error {
	if outfile.ReaderGone(os.Stdout) {
		return unix.EPIPE
	}
	return nil
}

// explainPrint says what was tried in an error of printing.
func explainPrint(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return outfile.WriteError(stdoutName, err)
	}
	if err != nil {
		return fmt.Errorf("print to standard output: %w", err)
	}
	return nil
}
