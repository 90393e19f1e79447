package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Console prints to a stream whose reader may have stopped. Write waits at most limit until a
// text is written. While that text is pending, later texts are discarded without a wait, because a
// full pipe or a stopped terminal must not delay a command or its end. Any goroutine may call
// Write.
type Console struct {
	out   io.Writer
	limit time.Duration

	mu      sync.Mutex
	written chan struct{} // closed when the last text has been written; nil = there was none
}

// NewConsole returns a Console that prints to out, with a limit of two seconds.
func NewConsole(out io.Writer) *Console { return &Console{out: out, limit: 2 * time.Second} }

// File is the file that the Console prints to; nil = it prints to something else.
func (c *Console) File() *os.File {
	f, _ := c.out.(*os.File)
	return f
}

var errUnread = errors.New("nobody reads it")

// Write prints a text, or discards it with an error.
func (c *Console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written != nil {
		select {
		case <-c.written:
		default:
			return 0, errUnread
		}
	}
	text, written := bytes.Clone(b), make(chan struct{})
	c.written = written
	var n int
	var err error
	go func() {
		n, err = c.out.Write(text)
		close(written)
	}()
	select {
	case <-written:
		return n, err
	case <-time.After(c.limit):
		return 0, errUnread
	}
}

// IsStdout reports whether a value of -w is standard output.
func IsStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// IsStdoutClosed reports whether standard output was closed when the process was started. Then Go's
// runtime has opened /dev/null in its place, for reading and writing. The result is also true if
// the caller has done that, as Python does with DEVNULL; a shell opens /dev/null only for writing.
func IsStdoutClosed() bool {
	var is unix.Stat_t
	if err := unix.Fstat(unix.Stdout, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFCHR || is.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	mode, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR
}

// CheckNotClosed refuses a closed standard output, on which what, such as "packets", would be lost
// silently. drop is the option with which a user drops them on purpose.
func CheckNotClosed(what, drop string) error {
	if !IsStdoutClosed() {
		return nil
	}
	return fmt.Errorf("standard output is closed, or /dev/null opened for reading and writing, and takes no %s: "+
		"open it, or say %s to drop them", what, drop)
}

// CheckPrints refuses a closed standard output for a command that prints results.
func CheckPrints() error {
	if err := CheckNotClosed("results", ">/dev/null"); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// StderrFile is the name of standard error as the value of a flag.
const StderrFile = "/dev/stderr"

// How messages call standard input and output.
const (
	StdinName  = "standard input"
	StdoutName = "standard output"
)

// A Stdout is the process's standard output.
type Stdout struct {
	File  *os.File
	taken atomic.Int64 // bytes that Write has written
}

// Write writes to the file, and counts the bytes, from which Process determines whether an ending
// makes progress.
func (s *Stdout) Write(b []byte) (int, error) {
	n, err := s.File.Write(b)
	s.taken.Add(int64(n))
	return n, err
}

// Check returns EPIPE if the reader of a pipe has closed it, even if no line is printed.
func (s *Stdout) Check() error {
	if outfile.ReaderGone(s.File) {
		return unix.EPIPE
	}
	return nil
}

// ExplainPrint adds the operation to an error of printing; nil stays nil.
func ExplainPrint(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return outfile.WriteError(StdoutName, err)
	}
	if err != nil {
		return fmt.Errorf("print to standard output: %w", err)
	}
	return nil
}
