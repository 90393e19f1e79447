package capture

import (
	"errors"
	"os"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A File is an Output that makes a capture file, as a [Writer] does, and looks after the file: an
// error ends the session soon after the file was removed, renamed, replaced, or changed by another
// program, or after the reader of a pipe has gone away. Of a file that is gone or that cannot be
// read any more, all packets count as lost. A File belongs to one goroutine; only Size may be
// called by any.
type File struct {
	file    *outfile.File
	writer  *Writer
	begun   bool
	checked time.Time
	err     error // of the file, found by check
}

// checkInterval is how often, at most, a File looks what has become of its file.
const checkInterval = 500 * time.Millisecond

// OpenFile opens the file at a path, or makes it, for its owner alone. A regular file is locked
// against others that would write captures to it, and is left as it is until Begin empties it. The
// name of the file in errors is its path unless the options have another one.
func OpenFile(path string, o WriterOptions) (*File, error) {
	f, err := outfile.Open(path)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = path
	}
	return &File{file: f, writer: NewWriter(f, o)}, nil
}

// NewFile returns a File of one that is already open, such as standard output. It is not emptied,
// locked or closed, and may be removed or renamed.
func NewFile(f *os.File, o WriterOptions) (*File, error) {
	opened, err := outfile.Opened(f, o.Name)
	if err != nil {
		return nil, err
	}
	return &File{file: opened, writer: NewWriter(f, o)}, nil
}

// Begin empties the file and makes its header.
func (f *File) Begin(d Description) error {
	if err := f.file.Begin(); err != nil {
		return err
	}
	f.begun = true
	return f.writer.Begin(d)
}

// Write adds a packet, as Writer.Write does.
func (f *File) Write(p *Packet) error {
	if f.err != nil {
		return f.err
	}
	return f.writer.Write(p)
}

// Flush hands what is buffered to the file, and looks what has become of the file.
func (f *File) Flush() error {
	if f.err != nil {
		return f.err
	}
	if err := f.writer.Flush(); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(f.checked) >= checkInterval {
		f.checked = now
		f.err = f.file.Check(f.writer.Size())
	}
	return f.err
}

// End writes what is buffered and the final accounts, as Writer.End does, waits until the disk has
// the file, and closes it.
func (f *File) End(final Accounts) (Accounts, error) {
	nothing := final.Delivered(make(Accounts, len(final)))
	if !f.begun {
		return nothing, f.err
	}
	if f.err == nil {
		f.err = f.file.Check(f.writer.Size())
	}
	if errors.Is(f.err, outfile.ErrSpoiled) {
		return nothing, errors.Join(f.err, f.Close())
	}
	own, err := f.writer.End(final)
	if f.err != nil {
		err = f.err // which came first
	}
	finished := f.file.Finish(f.writer.Size())
	if errors.Is(finished, outfile.ErrSpoiled) {
		own = nothing
	}
	closed := f.Close()
	for _, last := range []error{finished, closed} {
		if err == nil {
			err = last
		}
	}
	return own, err
}

// Size is how many bytes the file has taken.
func (f *File) Size() int64 { return f.writer.Size() }

// Close closes the file if End has not. If OpenFile has made the file and it was never begun, it is
// removed.
func (f *File) Close() error { return f.file.Close() }
