package frame

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// IsStdout tells whether -w names standard output.
func IsStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// IsStdoutClosed tells whether standard output was closed when the process was started. Go's
// runtime has opened /dev/null in its place by then, for reading and writing. A caller that has
// done so itself looks the same, as Python with DEVNULL. A shell opens /dev/null for writing alone.
func IsStdoutClosed() bool {
	var is unix.Stat_t
	if err := unix.Fstat(unix.Stdout, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFCHR || is.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	mode, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR
}

// CheckNotClosed refuses a standard output that is closed, because what is written to it would be
// lost without a word. drop is what a user says to ask for just that.
func CheckNotClosed(what, drop string) error {
	if !IsStdoutClosed() {
		return nil
	}
	return fmt.Errorf("standard output is closed, or /dev/null opened for reading and writing, and takes no %s: "+
		"open it, or say %s to drop them", what, drop)
}

// CheckPrints refuses a command that would measure, and print what it has found to nobody.
func CheckPrints() error {
	if err := CheckNotClosed("results", ">/dev/null"); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// StderrFile is the file by which a flag names standard error.
const StderrFile = "/dev/stderr"

// StdoutName is how messages call standard output.
const StdoutName = "standard output"

// printedBytes is how many bytes standard output has taken by stdout.
var printedBytes atomic.Int64

// PrintedSoFar is how many bytes standard output has taken of packets.
func PrintedSoFar() int64 { return printedBytes.Load() }

// A Stdout is standard output where packets are printed to it.
type Stdout struct{}

// Write counts what is taken, by which an ending is seen to go on.
func (Stdout) Write(b []byte) (int, error) {
	n, err := os.Stdout.Write(b)
	printedBytes.Add(int64(n))
	return n, err
}

// CheckStdout finds out that the reader of a pipe has gone also when nothing is printed.
func CheckStdout() error {
	if outfile.ReaderGone(os.Stdout) {
		return unix.EPIPE
	}
	return nil
}

// ExplainPrint says what was tried in an error of printing.
func ExplainPrint(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return outfile.WriteError(StdoutName, err)
	}
	if err != nil {
		return fmt.Errorf("print to standard output: %w", err)
	}
	return nil
}
