package read

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
	opens []*os.File
	conns []io.Closer

	several bool                  // inputs, so that none may wait for another
	hostOf  func(*url.URL) string // the name of a stream, which begins those of its interfaces; nil = its URL, which does not
	notice  func(error)           // any goroutine may call it
}

// open opens all files, and reads no more than their first four bytes yet, because a file may be
// made to attack its reader.
// After an error the inputs contain the files that are open.
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
	f, err := os.Stdin, error(nil)
	if name == "-" {
		name = frame.StdinName
		if term.IsTerminal(int(f.Fd())) {
			return errors.New("standard input is a terminal: pipe a capture into xdpcap read -")
		}
	} else if f, err = frame.OpenInput(name); err != nil {
		return err
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

// recognise returns an error if a regular file is no capture file, before an output is made, which
// could not be removed later. It compares the first four bytes, and the file's position stays.
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
		return &url.URL{Scheme: "tcp"} // dialStream refuses it
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
	if in.hostOf != nil {
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
	f.In, f.Late = p, p.late
	in.conns, in.files = append(in.conns, p), append(in.files, f)
	return nil
}

// A liveInput is a connection on which a read may wait. A signal ends the wait.
type liveInput struct {
	net.Conn
	ctx context.Context
}

// Read returns nothing and no error if nothing comes for a while.
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

// has says whether a file is one of the inputs.
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
