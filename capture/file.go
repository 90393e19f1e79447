package capture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A File is an Output that makes a capture file, as a [Writer] does, or with OpenFiles a series of
// them, and looks after the file: an error ends the session soon after the file was removed,
// renamed, replaced, or changed by another program, or after the reader of a pipe has gone away. Of
// a file that is gone or that cannot be read any more, all packets count as lost. A File belongs to
// one goroutine; only Size and Accounts may be called by any.
//
// Each file of a series can be read by itself: it has the header, and the statistics of its own
// packets. The captured packets of all of them are those of the account that End returns. The next
// file is opened by the goroutine that writes, and needs no more than write permission in the
// directory. The one before is brought to its disk by a third goroutine meanwhile.
type File struct {
	writer   *Writer
	rotation Rotation
	begun    bool

	// This belongs to the goroutine that writes, from Begin until the queue has ended.
	description Description
	header      []byte // that a file begins with
	before      []byte // blocks before the first packet, until there is a file for them
	place       Place
	written     int64    // the place in the queue up to which blocks were written
	told        Accounts // what the statistics of the files before say together
	err         error    // after which nothing is written; of the kind ErrEnough if that was asked for
	timer       *time.Timer
	settled     time.Time // what Description.Settled told when tend was called last
	keeper      *keeper   // one for all files of a recorder
	finisher    *finisher

	mu      sync.Mutex
	present *part // that is written to; nil when there are enough
	closed  bool
	size    int64    // bytes in the files before
	taken   Accounts // Captured and Bytes: what reached the files before
	own     Accounts // what End has returned
}

// OpenFile opens the file at a path, or makes it, for its owner alone. A regular file is locked
// against others that would write captures to it, and is left as it is until Begin empties it. The
// name of the file in errors is its path unless the options have another one. A FIFO that nobody
// reads from is an error of the kind [ErrNoReader].
func OpenFile(path string, o WriterOptions) (*File, error) {
	return OpenFiles(Rotation{Path: func(Place) string { return path }}, o)
}

// OpenFiles opens the first file of a series as OpenFile does, unless that waits for the stamp of
// the first packet. In errors each file has its path as its name.
func OpenFiles(r Rotation, o WriterOptions) (*File, error) {
	f := &File{writer: NewWriter(nil, o), rotation: r}
	if r.Stamped {
		return f, nil
	}
	f.place = r.first(time.Now().Round(0))
	path := r.Path(f.place)
	p, err := f.openPart(path, slices.Contains(r.Left, path))
	if err != nil {
		return nil, err
	}
	f.present = p
	if err := f.checkFree(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkFree finds a disk that has less free than is to be left free, and no file that could be
// removed from it: nothing would be captured.
func (f *File) checkFree() error {
	r := &f.rotation
	if r.MinFree == 0 || len(r.Left) > 0 {
		return nil
	}
	free, err := f.present.file.Free()
	if err == nil && free < r.MinFree {
		err = tooFull(f.present.path, free, r.MinFree)
	}
	return err
}

// tooFull says that a disk has too little free.
func tooFull(path string, free, least int64) error {
	return fmt.Errorf("the disk of %s has %s free, and %s are to be left free", path, amount(free), amount(least))
}

// NewFile returns a File of one that is already open, such as standard output. It is not emptied,
// locked or closed, and may be removed or renamed.
func NewFile(f *os.File, o WriterOptions) (*File, error) {
	opened, err := outfile.Opened(f, o.Name)
	if err != nil {
		return nil, err
	}
	if err := o.refuses(opened); err != nil {
		return nil, err
	}
	made := &File{writer: NewWriter(nil, o)}
	made.present = made.newPart(o.Name, o.Name, opened)
	return made, nil
}

// Begin empties the file and makes its header.
func (f *File) Begin(d Description) error {
	p := f.present
	if p != nil {
		if err := p.file.Begin(); err != nil {
			return err
		}
	}
	w := f.writer
	w.notice = d.Options.notice
	w.enc = newEncoder(&d, &w.options)
	f.description, f.header = d, w.enc.header(nil)
	f.told = make(Accounts, len(d.Sources))
	f.mu.Lock()
	f.taken = make(Accounts, len(d.Sources))
	f.mu.Unlock()
	if f.keeper == nil {
		f.keeper = newKeeper(&f.rotation, d.Options.notice)
	}
	f.finisher = newFinisher(&f.rotation, f.keeper, len(d.Sources))
	if p != nil {
		f.keeper.release(p.path)
		f.start(p)
		w.name = p.stream.name
	} else {
		w.name = f.rotation.Path(f.rotation.first(d.Started))
	}
	if err := w.beginQueue(f, w.name, &d); err != nil {
		f.finisher.end()
		return err
	}
	f.begun = true
	if p != nil {
		f.wakeAt(f.rotation.until(f.place))
	}
	return nil
}

// Write adds packets, as Writer.Write does.
func (f *File) Write(packets []Packet) error { return f.writer.Write(packets) }

// Flush lets what was added be written, as Writer.Flush does. Twice a second it lets the goroutine
// that writes look what has become of the file.
func (f *File) Flush() error { return f.writer.Flush() }

// End waits until the file has everything, as Writer.End does, and the disk has the file, and
// closes it.
func (f *File) End(final Accounts) (own Accounts, err error) {
	defer func() {
		f.mu.Lock()
		f.own = own
		f.mu.Unlock()
	}()
	if !f.begun {
		return final.Delivered(make(Accounts, len(final))), nil
	}
	f.writer.endQueue()
	f.stopTimer()
	if f.place.Period.IsZero() && f.present == nil && f.err == nil { // no packet has come
		f.err = f.open(f.rotation.first(time.Now().Round(0)))
	}
	account := final.Delivered
	err = f.err
	if errors.Is(err, ErrEnough) {
		account, err = final.passedOver, nil
	}
	if p := f.present; p != nil {
		p.last = true
		ended := f.complete(func(taken Accounts) Accounts { return account(f.taken.plus(taken)).without(f.told) })
		if err == nil && !errors.Is(ended, ErrEnough) {
			err = ended
		}
		f.finisher.end()
		if p.err != nil {
			err = p.err // which came first
		}
	}
	f.finisher.end()
	for _, last := range []error{f.finisher.failure(), f.Close()} {
		if err == nil {
			err = last
		}
	}
	return account(f.taken).refuse(f.finisher.refused), err
}

// Give makes a file that OpenFile or OpenFiles has made belong to another user and group, by
// their ids. One that was there before stays as it is. Those behind it belong to who this process
// is then.
func (f *File) Give(uid, gid int) error {
	if f.present == nil {
		return nil
	}
	return f.present.file.Give(uid, gid)
}

// IsNew tells whether OpenFile or OpenFiles has made the file, or will make it.
func (f *File) IsNew() bool { return f.present == nil || f.present.file.IsNew() }

func (f *File) backlog() (added, written, limit int64) { return f.writer.backlog() }

// Size is how many bytes the file has taken, or all files of the series.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.present == nil {
		return f.size
	}
	return f.size + f.present.stream.size.Load()
}

// Accounts returns the File's accounts so far, of the session's, which session reads: packets that
// have reached a file are captured, and those that wait for it are in Seen alone. After End they
// are what it has returned. Any goroutine may call it.
func (f *File) Accounts(session func() (Accounts, error)) (Accounts, error) {
	own, taken := f.takenNow()
	if own != nil {
		return own, nil
	}
	return soFar(taken, session)
}

// takenNow is what has reached the files so far; nil before Begin. own is what End has returned.
func (f *File) takenNow() (own, taken Accounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken = slices.Clone(f.taken)
	if taken != nil && f.present != nil {
		taken = taken.plus(f.present.stream.takenNow())
	}
	return slices.Clone(f.own), taken
}

// Close closes the file if End has not: packets that it has not taken yet are lost. If OpenFile has
// made the file and it was never begun, it is removed.
func (f *File) Close() (err error) {
	f.mu.Lock()
	f.closed = true
	if f.present != nil {
		err = f.present.file.Close()
	}
	f.mu.Unlock()
	if f.begun {
		f.writer.queue.end() // with the file closed, this does not wait for it
		f.stopTimer()
		f.finisher.end()
	}
	return err
}

// errEnough is the error with which a File ends the session because it was asked to.
func errEnough(format string, args ...any) error { return xdp.Kind(ErrEnough, format, args...) }
