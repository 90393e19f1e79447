package file

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A File is an Output that writes a capture file, as a [Writer] does, or a series of them with
// OpenSeries. It also watches the file: an error ends the session soon after the file was removed,
// renamed, replaced, or changed by another program, or after the reader of a pipe has gone away. If
// the file is gone or can no longer be read, all its packets count as lost. A File belongs to one
// goroutine; any goroutine may call Size, Kept and Accounts.
//
// Each file of a series can be read by itself: it has the header and the statistics of its own
// packets. Captured in the account that End returns is the sum over all files. The goroutine that
// writes opens the next file, which needs only write permission in the directory. Meanwhile a third
// goroutine syncs the previous file to disk.
type File struct {
	writer   *Writer
	rotation Rotation
	begun    bool

	// These belong to the goroutine that writes, from Begin until the queue has ended.
	description capture.Description
	header      []byte        // that a file begins with, or the first one of a live capture
	head        []byte        // that the later ones of a live capture begin with
	described   []description // the interfaces of a live capture, in the order in which they came
	before      []byte        // blocks before the first packet, until there is a file for them
	place       Place
	passed      error            // the notice that names are passed over; nil = none was
	written     int64            // the position in the queue up to which blocks were written
	told        capture.Accounts // the sum of the statistics in earlier files
	departures  departures
	err         error // nothing is written after it; of the kind ErrEnough if a limit was reached
	timer       *time.Timer
	settled     time.Time // what Description.Settled returned at the last call of tend
	finisher    *finisher

	mu      sync.Mutex
	keeper  *Keeper // does not change after Begin
	shared  bool    // the keeper is that of all files of a recorder
	present *part   // the current file; nil when there are enough
	closed  bool
	size    int64            // bytes in earlier files
	taken   capture.Accounts // Captured and Bytes: what reached earlier files
	own     capture.Accounts // what End returned
}

// Open opens the file at a path, or creates it with permissions for its owner only. A regular
// file is locked against other captures and stays unchanged until Begin empties it. Errors name the
// file by its path unless the options have another name. A FIFO without a reader is an error of the
// kind [ErrNoReader].
func Open(path string, o Options) (*File, error) {
	return OpenSeries(Rotation{Path: func(Place) string { return path }}, o)
}

// OpenSeries opens the first file of a series as Open does, unless its name needs the time stamp
// of the first packet. Errors name each file by its path.
func OpenSeries(r Rotation, o Options) (*File, error) {
	f := &File{writer: NewWriter(nil, o), rotation: r}
	f.rotation.Left = o.withoutOthers(r.Left)
	if r.Stamped {
		return f, nil
	}
	f.place = r.first(time.Now().Round(0))
	p, err := f.openAt(f.place, r.Keep > 0, f.rotation.hasLeft)
	if err != nil {
		return nil, err
	}
	f.present = p
	return f, nil
}

// New returns a File that writes to an open one, such as standard output. The open file is not
// emptied, locked or closed, and it may be removed or renamed.
func New(f *os.File, o Options) (*File, error) {
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

// Begin empties the file and encodes its header.
func (f *File) Begin(d capture.Description) error {
	p := f.present
	if p != nil {
		if f.rotation.Keep == 0 {
			if err := f.rotation.checkFree(p.path, p.file.Free); err != nil {
				return err
			}
		}
		if err := p.file.Begin(); err != nil {
			return err
		}
	}
	w := f.writer
	w.notice = d.Notice
	if err := f.passed; err != nil {
		w.notice(err)
	}
	w.enc = w.options.Format.kind().open(&d, &w.options)
	f.description, f.header = d, w.enc.header(nil)
	f.departures = departures{leaving: make(map[int]*departure), gone: make(map[int]bool)}
	if d.IsLive() && d.More != nil {
		f.splitHeader()
	}
	f.told = make(capture.Accounts, len(d.Sources))
	f.mu.Lock()
	f.taken = make(capture.Accounts, len(d.Sources))
	f.mu.Unlock()
	f.finisher = newFinisher(&f.rotation, f.Keeper(d.Notice), len(d.Sources))
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
	return nil
}

// Write adds packets, as Writer.Write does.
func (f *File) Write(packets []capture.Packet) error { return f.writer.Write(packets) }

// Flush starts to write what was added, as Writer.Flush does. Twice a second it also makes the
// goroutine that writes check the file.
func (f *File) Flush() error { return f.writer.Flush() }

// End waits until everything is written, as Writer.End does, and synced to disk, and closes the
// file.
func (f *File) End(final capture.Accounts) (own capture.Accounts, err error) {
	defer func() {
		f.mu.Lock()
		f.own = own
		f.mu.Unlock()
	}()
	if !f.begun {
		return final.Delivered(make(capture.Accounts, len(final))), nil
	}
	f.writer.endQueue()
	f.stopTimer()
	if f.place.Period.IsZero() && f.present == nil && f.err == nil { // no packet has come
		f.err = f.open(f.rotation.first(time.Now().Round(0)))
	}
	if f.present != nil && f.err == nil {
		// MaxBytes or MinFree may refuse the last frame. Its packets then count as not sampled.
		if err := f.present.stream.flush(); errors.Is(err, capture.ErrEnough) {
			f.err = err
		}
	}
	account := final.Delivered
	err = f.err
	if errors.Is(err, capture.ErrEnough) {
		account, err = func(taken capture.Accounts) capture.Accounts { return passedOver(final, taken, f.told) }, nil
	}
	if p := f.present; p != nil {
		p.last = true
		ended := f.complete(func(taken capture.Accounts) capture.Accounts { return account(f.taken.Plus(taken)).Minus(f.told) }, p.stream.forceEnd)
		if err == nil && !errors.Is(ended, capture.ErrEnough) {
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
	return refuse(account(f.taken), f.finisher.refused), err
}

// Give changes the user and group, by id, of a file that Open or OpenSeries created. A file that
// existed before stays as it is. Later files of a series belong to whoever this process runs as
// when it creates them.
func (f *File) Give(uid, gid int) error {
	if f.present == nil {
		return nil
	}
	return f.present.file.Give(uid, gid)
}

// IsNew tells whether Open or OpenSeries created the file, or will create it.
func (f *File) IsNew() bool { return f.present == nil || f.present.file.IsNew() }

// Backlog says how many bytes wait to be written, as Writer.Backlog does.
func (f *File) Backlog() (added, written, limit int64) { return f.writer.Backlog() }

// WriteDirect takes packets directly from the rings, as Writer.WriteDirect does.
func (f *File) WriteDirect(take func(*capture.Encoder, *capture.Batch) int) error {
	return f.writer.WriteDirect(take)
}

// Keeper returns what makes the file keep within the limits of its Rotation: Keep, Left, MaxBytes
// and MinFree. Call it before Begin. notice is called once, for the first file that cannot be
// removed.
func (f *File) Keeper(notice func(error)) *Keeper {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keeper == nil {
		f.keeper = newKeeper(&f.rotation, notice)
	}
	return f.keeper
}

// KeepBy makes the limits of another File's Rotation apply to the files of both together. Call it
// before Begin, with what the other's Keeper returned. Whoever shares a Keeper closes it.
func (f *File) KeepBy(k *Keeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeper, f.shared = k, true
}

// Enough returns, after End, the error of the kind [ErrEnough] that says which limit of the
// Rotation was reached; nil = none.
func (f *File) Enough() error {
	if errors.Is(f.err, capture.ErrEnough) {
		return f.err
	}
	return nil
}

// Size is how many bytes were written to the file, or to all files of the series, also to those
// that are no longer there.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.present == nil {
		return f.size
	}
	return f.size + f.present.stream.size.Load()
}

// Kept is how many bytes the files have that are there: without those that the series has removed
// or overwritten, and with those that its Keeper has taken over. Where several Files share a Keeper
// it counts the files of all. It is 0 before Begin.
func (f *File) Kept() int64 {
	f.mu.Lock()
	k := f.keeper
	f.mu.Unlock()
	if k == nil {
		return 0
	}
	return k.bytes()
}

// Accounts returns the File's accounts so far; session reads those of the session. Packets that
// have reached a file are Captured; those that wait for it are counted only in Seen. After End it
// returns what End returned. Any goroutine may call it.
func (f *File) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	own, taken := f.takenNow()
	if own != nil {
		return own, nil
	}
	own, err := session()
	if err != nil {
		return own, err
	}
	return own.SoFar(taken), nil
}

// takenNow returns what has reached the files so far; nil before Begin. own is what End returned.
func (f *File) takenNow() (own, taken capture.Accounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken = slices.Clone(f.taken)
	if taken != nil && f.present != nil {
		taken = taken.Plus(f.present.stream.takenNow())
	}
	return slices.Clone(f.own), taken
}

// Close closes the file unless End already did; packets not yet written are lost. A file that
// Open created is removed if it was never begun.
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
		if !f.shared {
			f.keeper.Close()
		}
	}
	return err
}

// errEnough returns the error with which a File ends the session because a limit was reached.
func errEnough(format string, args ...any) error {
	return errkind.Errorf(capture.ErrEnough, format, args...)
}
