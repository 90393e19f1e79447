package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/localsocket"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// readInputs are the files that are read.
type readInputs struct {
	ctx   context.Context
	tls   *tlsOptions
	files []capture.InputFile
	opens []*os.File
	conns []net.Conn
}

// open opens all files, of which it reads nothing yet: whoever made them may have made them to harm
// what reads them. What is already open is in the inputs also after an error.
func (in *readInputs) open(names []string) error {
	for _, name := range names {
		if err := in.add(name); err != nil {
			return err
		}
	}
	return nil
}

func (in *readInputs) add(name string) error {
	if url := streamURL(name); url != nil {
		return in.addStream(url)
	}
	file, err := os.Stdin, error(nil)
	if name == "-" {
		name = "standard input"
		if term.IsTerminal(int(file.Fd())) {
			return errors.New("standard input is a terminal: pipe a capture into xdpcap read -")
		}
	} else if file, err = openInput(name); err != nil {
		return err
	}
	in.opens = append(in.opens, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory: name the files in it", name)
	}
	input := capture.InputFile{Name: name, In: file}
	if !info.Mode().IsRegular() {
		input.In, input.Waits = &waitingInput{File: file, ctx: in.ctx, returns: true}, true
	}
	in.files = append(in.files, input)
	return nil
}

// openInput opens a file for reading. A FIFO is not waited for here, but by a waitingInput.
func openInput(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// openWaiting opens a file, or standard input for -, whose reading ends with the first signal to
// end. The caller closes it.
func openWaiting(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(&waitingInput{File: os.Stdin, ctx: frame.Signalled}), nil
	}
	f, err := openInput(name)
	if err != nil {
		return nil, err
	}
	return &waitingInput{File: f, ctx: frame.Signalled}, nil
}

// maxInput bounds what readInput reads, in bytes. A device or a pipe may never end.
const maxInput = 1 << 20

// readInput reads a file as openWaiting opens it, of at most a MiB.
func readInput(name string) ([]byte, error) {
	f, err := openWaiting(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("%s has more than 1 MB: choose another file", name)
	}
	return text, nil
}

// streamURL returns what an argument names that is no file: tcp://HOST:PORT.
func streamURL(name string) *url.URL {
	if path, ok := localsocket.Path(name); ok {
		return &url.URL{Scheme: "unix", Opaque: path}
	}
	if !strings.HasPrefix(name, "tcp://") {
		return nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return &url.URL{Scheme: "tcp"} // which dialStream refuses
	}
	return u
}

// addStream connects to a live stream.
func (in *readInputs) addStream(u *url.URL) error {
	ctx, cancel := context.WithTimeout(in.ctx, 10*time.Second)
	defer cancel()
	conn, err := dialStream(ctx, u, in.tls)
	if err != nil {
		return fmt.Errorf("read %s: %w", u, err)
	}
	in.conns = append(in.conns, conn)
	in.files = append(in.files, capture.InputFile{Name: u.String(), In: &liveInput{conn, in.ctx}, Waits: true})
	return nil
}

// waitInterval is how long an input is waited for at once: then the outputs have their turn, and
// the context is looked at.
const waitInterval = 100 * time.Millisecond

// A liveInput is a connection that a read may wait for. A signal ends that.
type liveInput struct {
	net.Conn
	ctx context.Context
}

// Read returns nothing and no error when nothing has come for a while.
func (l *liveInput) Read(b []byte) (int, error) {
	l.SetReadDeadline(time.Now().Add(waitInterval))
	n, err := l.Conn.Read(b)
	switch {
	case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case l.ctx.Err() != nil:
		return 0, l.ctx.Err()
	}
	return 0, nil
}

// has tells whether a file is one of the inputs.
func (in *readInputs) has(other os.FileInfo) bool {
	if !other.Mode().IsRegular() {
		return false
	}
	for _, f := range in.opens {
		if info, err := f.Stat(); err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

func (in *readInputs) close() {
	for _, conn := range in.conns {
		conn.Close()
	}
	for _, f := range in.opens {
		if f != os.Stdin {
			f.Close()
		}
	}
}

// A waitingInput is a pipe or another file that a read may wait for. A signal ends that.
type waitingInput struct {
	*os.File
	ctx     context.Context
	returns bool // nothing and no error when nothing has come for a while
}

func (w *waitingInput) Read(b []byte) (int, error) {
	raw, err := w.SyscallConn()
	if err != nil {
		return 0, err
	}
	for w.ctx.Err() == nil {
		ready := 0
		failed := raw.Control(func(fd uintptr) {
			ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(waitInterval.Milliseconds()))
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
	return 0, xdp.Kind(w.ctx.Err(), "a signal ended the wait for it")
}
