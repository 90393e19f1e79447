package capture

import (
	"errors"
	"os"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A File is an Output that makes a capture file, as a [Writer] does, and looks after the file: an
// error ends the session soon after the file was removed, renamed, replaced, or changed by another
// program, or after the reader of a pipe has gone away. Of a file that is gone or that cannot be
// read any more, all packets count as lost. A File belongs to one goroutine; only Size may be
// called by any.
type File struct {
	file   *outfile.File
	writer *Writer
	begun  bool
	err    error // of the file, found by check
}

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
	return newFile(f, NewWriter(f, o)), nil
}

// NewFile returns a File of one that is already open, such as standard output. It is not emptied,
// locked or closed, and may be removed or renamed.
func NewFile(f *os.File, o WriterOptions) (*File, error) {
	opened, err := outfile.Opened(f, o.Name)
	if err != nil {
		return nil, err
	}
	return newFile(opened, NewWriter(f, o)), nil
}

func newFile(opened *outfile.File, w *Writer) *File {
	f := &File{file: opened, writer: w}
	w.stream.check = f.check
	return f
}

// check looks what has become of the file, until that is an error. It runs on the goroutine that
// writes to the file. Nothing more is written where it could not be read.
func (f *File) check() error {
	if f.err == nil {
		f.err = f.file.Check(f.writer.Size())
	}
	if errors.Is(f.err, outfile.ErrSpoiled) {
		f.writer.stream.err = f.err
	}
	return f.err
}

// Begin empties the file and makes its header.
func (f *File) Begin(d Description) error {
	if err := f.file.Begin(); err != nil {
		return err
	}
	if err := f.writer.Begin(d); err != nil {
		return err
	}
	f.begun = true
	return nil
}

// Write adds packets, as Writer.Write does.
func (f *File) Write(packets []Packet) error { return f.writer.Write(packets) }

// Flush lets what was added be written, as Writer.Flush does. Twice a second it lets the goroutine
// that writes look what has become of the file.
func (f *File) Flush() error { return f.writer.Flush() }

// End waits until the file has everything, as Writer.End does, and the disk has the file, and
// closes it.
func (f *File) End(final Accounts) (Accounts, error) {
	nothing := final.Delivered(make(Accounts, len(final)))
	if !f.begun {
		return nothing, nil
	}
	f.writer.queue.end()
	f.check()
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

// Give makes a file that OpenFile has made belong to another user and group, by their ids. One that
// was there before stays as it is.
func (f *File) Give(uid, gid int) error { return f.file.Give(uid, gid) }

// Size is how many bytes the file has taken.
func (f *File) Size() int64 { return f.writer.Size() }

// Close closes the file if End has not: packets that it has not taken yet are lost. If OpenFile has
// made the file and it was never begun, it is removed.
func (f *File) Close() error {
	err := f.file.Close()
	if f.begun {
		f.writer.queue.end() // with the file closed, this does not wait for it
	}
	return err
}
