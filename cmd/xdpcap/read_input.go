package main

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

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// readInputs are the files that are read.
type readInputs struct {
	files []*capfile.File // after begin
	open  []*os.File
	conns []net.Conn

	begins []func() (*capfile.File, error) // of what is open
	memory *capfile.Memory                 // of those that are compressed
}

// inputOptions say what happens while the reading waits for input.
type inputOptions struct {
	ctx  context.Context
	idle func() // called before it waits
	tls  *tlsOptions
}

// openInputs opens all files, of which it reads nothing yet: whoever made them may have made them
// to harm what reads them. What is already open is in the inputs also after an error.
func openInputs(names []string, o inputOptions) (*readInputs, error) {
	in := &readInputs{memory: capfile.NewMemory(machine.AvailableMemory().Bytes)}
	for _, name := range names {
		if err := in.add(name, o); err != nil {
			return in, err
		}
	}
	return in, nil
}

func (in *readInputs) add(name string, o inputOptions) error {
	if url := streamURL(name); url != nil {
		return in.addStream(url, o)
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
	in.open = append(in.open, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory: name the files in it", name)
	}
	in.begins = append(in.begins, func() (*capfile.File, error) {
		if info.Mode().IsRegular() {
			return capfile.New(file, name, capfile.Options{Memory: in.memory})
		}
		return capfile.New(&waitingInput{file, o.ctx}, name, capfile.Options{BeforeRead: o.idle, Memory: in.memory})
	})
	return nil
}

// begin reads how each file begins, once the process has given up what it does not need for that.
func (in *readInputs) begin() error {
	for _, begin := range in.begins {
		f, err := begin()
		if err != nil {
			return err
		}
		in.files = append(in.files, f)
	}
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
		return io.NopCloser(&waitingInput{os.Stdin, signalled}), nil
	}
	f, err := openInput(name)
	if err != nil {
		return nil, err
	}
	return &waitingInput{f, signalled}, nil
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
	if path, ok := localPath(name); ok {
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
func (in *readInputs) addStream(u *url.URL, o inputOptions) error {
	ctx, cancel := context.WithTimeout(o.ctx, 10*time.Second)
	defer cancel()
	conn, err := dialStream(ctx, u, o.tls)
	if err != nil {
		return fmt.Errorf("read %s: %w", u, err)
	}
	in.conns = append(in.conns, conn)
	context.AfterFunc(o.ctx, func() { conn.SetReadDeadline(time.Now()) })
	in.begins = append(in.begins, func() (*capfile.File, error) {
		return capfile.New(&liveInput{conn, o.ctx}, u.String(), capfile.Options{BeforeRead: o.idle, Memory: in.memory})
	})
	return nil
}

// A liveInput is a connection that a read may wait for. A signal ends that.
type liveInput struct {
	net.Conn
	ctx context.Context
}

func (l *liveInput) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n == 0 && err != nil && l.ctx.Err() != nil {
		err = l.ctx.Err()
	}
	return n, err
}

// has tells whether a file is one of the inputs.
func (in *readInputs) has(file *os.File) bool {
	other, err := file.Stat()
	if err != nil || !other.Mode().IsRegular() {
		return false
	}
	for _, f := range in.open {
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
	for _, f := range in.files {
		f.Close()
	}
	for _, f := range in.open {
		if f != os.Stdin {
			f.Close()
		}
	}
}

// A waitingInput is a pipe or another file that a read may wait for. A signal ends that.
type waitingInput struct {
	*os.File
	ctx context.Context
}

func (w *waitingInput) Read(b []byte) (int, error) {
	const look = 100 // milliseconds, after which the context is looked at
	raw, err := w.SyscallConn()
	if err != nil {
		return 0, err
	}
	for w.ctx.Err() == nil {
		ready := 0
		failed := raw.Control(func(fd uintptr) {
			ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, look)
		})
		if failed != nil {
			return 0, failed
		}
		if ready > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return w.File.Read(b)
		}
	}
	return 0, xdp.Kind(w.ctx.Err(), "a signal ended the wait for it")
}
