package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/message"
)

// AwaitReader calls open again and again while it fails because the file is a FIFO without a
// reader. When the context ends, it returns the error of the last attempt.
func AwaitReader(ctx context.Context, open func() error) error {
	for {
		err := open()
		if !errors.Is(err, file.ErrNoReader) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// OpenInput opens a file for reading, without waiting for the writer of a FIFO. A reader by Waiting
// waits for it.
func OpenInput(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// OpenWaiting opens a file, or standard input for -. A read that waits fails when the context ends.
// The caller closes the file.
func OpenWaiting(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(&waitingInput{File: os.Stdin, ctx: ctx}), nil
	}
	f, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	return &waitingInput{File: f, ctx: ctx}, nil
}

// maxInput is the upper bound for the bytes of a file for ReadInput. A device or a pipe may never
// end.
const maxInput = 1 << 20

// ReadInput reads a whole file, which OpenWaiting opens.
func ReadInput(ctx context.Context, name string) ([]byte, error) {
	f, err := OpenWaiting(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return readInput(f, name)
}

// ReadSecret is ReadInput for a file with a key. Like ssh, it refuses a regular file that users
// other than the owner may read or change. The group of a file of root may read it, because
// Debian's ssl-cert and the Secrets of Kubernetes give keys to programs in this way.
func ReadSecret(ctx context.Context, name string) ([]byte, error) {
	f, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	others := os.FileMode(0o077)
	if info.Sys().(*syscall.Stat_t).Uid == 0 {
		others = 0o037
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&others != 0 {
		return nil, fmt.Errorf("key %s: others than its owner may read or change it, by its mode %04o: chmod 600 %s",
			name, mode.Perm(), message.ShellWord(name))
	}
	return readInput(&waitingInput{File: f, ctx: ctx}, name)
}

func readInput(f io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("%s has more than 1 MiB: choose another file", name)
	}
	return text, nil
}

// WaitInterval is the longest time of one wait for an input. After it the caller can serve its
// outputs, and the context is checked.
const WaitInterval = 100 * time.Millisecond

// Waiting returns a reader of a pipe, or of another file on which a read may wait. A read returns 0
// and no error if no data comes within WaitInterval, and an error when the context has ended.
func Waiting(ctx context.Context, f *os.File) io.Reader {
	return &waitingInput{File: f, ctx: ctx, timesOut: true}
}

// A waitingInput is a pipe or another file on which a read may wait, at most until the context
// ends.
type waitingInput struct {
	*os.File
	ctx      context.Context
	timesOut bool // Read returns 0 and no error if no data comes within WaitInterval
}

func (w *waitingInput) Read(b []byte) (int, error) {
	raw, err := w.SyscallConn()
	if err != nil {
		return 0, err
	}
	for w.ctx.Err() == nil {
		ready := 0
		failed := raw.Control(func(fd uintptr) {
			ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(WaitInterval.Milliseconds()))
		})
		if failed != nil {
			return 0, failed
		}
		if ready > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return w.File.Read(b)
		}
		if w.timesOut && w.ctx.Err() == nil {
			return 0, nil
		}
	}
	return 0, message.Errorf(w.ctx.Err(), "a signal ended the wait for it")
}
