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
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/message"
)

// AwaitReader opens a file. While that is a FIFO without a reader, it tries again. If the context
// ends, it returns the error of the last attempt.
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

// OpenInput opens a file for reading. It does not wait for the writer of a FIFO: Waiting does.
func OpenInput(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// OpenWaiting opens a file, or standard input for -, whose reading ends with the context. The
// caller closes it.
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

// maxInput is the most that ReadInput reads, in bytes, because a device or a pipe may never end.
const maxInput = 1 << 20

// ReadInput reads a file as OpenWaiting opens it, of at most a MiB.
func ReadInput(ctx context.Context, name string) ([]byte, error) {
	f, err := OpenWaiting(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return readInput(f, name)
}

// ReadSecret reads a file with a key as ReadInput does. Like ssh, it refuses a regular file that
// users other than the owner may read or change. Only if the file belongs to root may its group
// read it: Debian's ssl-cert and the Secrets of Kubernetes give keys to programs in this way.
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
			name, mode.Perm(), escape.ShellWord(name))
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

// WaitInterval is the longest time of one wait for an input. Then the outputs have their turn, and
// the context is checked.
const WaitInterval = 100 * time.Millisecond

// Waiting returns a pipe, or another file on which a read may wait. A read returns nothing and no
// error if nothing comes for a while, and an error when the context has ended.
func Waiting(ctx context.Context, f *os.File) io.Reader {
	return &waitingInput{File: f, ctx: ctx, returns: true}
}

// A waitingInput is a pipe or another file on which a read may wait. The end of the context ends
// the wait.
type waitingInput struct {
	*os.File
	ctx     context.Context
	returns bool // Read returns nothing and no error if nothing comes for a while
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
		if w.returns && w.ctx.Err() == nil {
			return 0, nil
		}
	}
	return 0, message.Errorf(w.ctx.Err(), "a signal ended the wait for it")
}
