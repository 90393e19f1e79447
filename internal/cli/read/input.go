package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// readInputs are the files that are read.
type readInputs struct {
	ctx   context.Context
	tls   *outputs.TLSOptions
	files []file.InputFile
	opens []*os.File  // of files, to be closed
	conns []io.Closer // of files that are streams, to be closed

	several bool                  // there are several inputs, which must not wait for each other
	hostOf  func(*url.URL) string // returns the prefix of the names of a stream's interfaces; nil = no prefix
	notice  func(error)           // any goroutine may call it
}

// open opens all files. It reads only their first four bytes, because the sandbox, which protects
// against hostile files, is entered later. After an error the inputs contain the open files.
func (in *readInputs) open(names []string) error {
	in.several = len(names) > 1
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
	f := os.Stdin
	if name == "-" {
		name = frame.StdinName
		if term.IsTerminal(int(f.Fd())) {
			return errors.New("standard input is a terminal: pipe a capture into xdpcap read -")
		}
	} else {
		var err error
		if f, err = frame.OpenInput(name); err != nil {
			return err
		}
	}
	in.opens = append(in.opens, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	input := file.InputFile{Name: name, In: f}
	if !info.Mode().IsRegular() {
		input.In, input.Waits = frame.Waiting(in.ctx, f), true
	} else if err := recognise(f, name); err != nil {
		return err
	}
	in.files = append(in.files, input)
	return nil
}

// recognise refuses a regular file that is no capture file by its first four bytes. It runs before
// outputs are created, because these could not be removed later. The file's position stays.
func recognise(f *os.File, name string) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	start := make([]byte, 4)
	n, err := f.ReadAt(start, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return capfile.Recognise(start[:n], name)
}

// streamURL returns the URL of an argument that names a stream: tcp://HOST:PORT.
func streamURL(name string) *url.URL {
	if path, ok := frame.SocketPath(name); ok {
		return &url.URL{Scheme: "unix", Opaque: path}
	}
	if !strings.HasPrefix(name, "tcp://") {
		return nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return &url.URL{Scheme: "tcp"} // outputs.DialStream refuses it
	}
	return u
}

// addStream connects to a live stream.
func (in *readInputs) addStream(u *url.URL) error {
	ctx, cancel := context.WithTimeout(in.ctx, 10*time.Second)
	defer cancel()
	conn, err := outputs.DialStream(ctx, u, in.tls)
	if err != nil {
		return fmt.Errorf("read %s: %w", u, err)
	}
	if !in.several {
		in.conns = append(in.conns, conn)
		in.files = append(in.files, file.InputFile{Name: u.String(), In: &liveInput{conn, in.ctx}, Waits: true})
		return nil
	}
	f := file.InputFile{Name: u.String(), Waits: true}
	if in.hostOf != nil { // gather
		f.Name = in.hostOf(u)
		f.Prefix = f.Name + ":"
	}
	p := newPump(in.ctx, conn, func(err error) {
		if !errors.Is(err, io.EOF) {
			in.notice(fmt.Errorf("%s is lost: %w", f.Name, err))
			return
		}
		in.notice(fmt.Errorf("%s has ended", f.Name))
	})
	f.In, f.Late = p, p.isIdle // while it is idle, the other streams are read
	in.conns, in.files = append(in.conns, p), append(in.files, f)
	return nil
}

// A liveInput is a connection on which Read waits for a limited time. A signal ends the wait.
type liveInput struct {
	net.Conn
	ctx context.Context
}

// Read returns 0 and no error if no byte comes within frame.WaitInterval.
func (l *liveInput) Read(b []byte) (int, error) {
	l.SetReadDeadline(time.Now().Add(frame.WaitInterval))
	n, err := l.Conn.Read(b)
	switch {
	case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case l.ctx.Err() != nil:
		return 0, l.ctx.Err()
	}
	return 0, nil
}

// contains reports whether a file is one of the inputs.
func (in *readInputs) contains(other os.FileInfo) bool {
	return other.Mode().IsRegular() && slices.ContainsFunc(in.opens, func(f *os.File) bool {
		info, err := f.Stat()
		return err == nil && os.SameFile(info, other)
	})
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
