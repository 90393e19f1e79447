package file

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A File is an Output that writes a capture file, as a [Writer] does, or a series of them with
// OpenSeries. It also checks the file twice a second: an error ends the session soon after the file
// was removed, renamed, replaced, or changed by another program, or after a pipe's reader has
// closed it. If the file is gone or can no longer be read, all its packets count as lost. A File
// belongs to one goroutine; any goroutine may call Size, Kept, Existing and Accounts.
//
// Each file of a series can be read by itself: it has the header and the statistics of its own
// packets. Captured in the account that End returns is the sum over all files. The goroutine that
// writes opens the next file, which needs only write permission in the directory. Meanwhile a third
// goroutine syncs the previous file to disk.
type File struct {
	producer
	frames   *frames // compresses one file after the other; nil = no compression
	rotation Rotation
	begun    bool

	// These belong to the goroutine that writes, from Begin until the queue has ended.
	description capture.Description
	header      []byte           // a file's header; in a live capture, the first file's
	head        []byte           // of later files of a live capture, without interfaces
	described   []description    // the interfaces of a live capture, in order of appearance
	before      []byte           // blocks before the first packet, until there is a file for them
	place       Place            // of the current file
	passed      error            // the notice that names are passed over; nil = not given
	written     int64            // the position in the queue up to which blocks were written
	reported    capture.Accounts // the sum of the statistics in earlier files
	departures  departures
	err         error // the first error, which ends writing; of the kind ErrEnough if a limit was reached
	timer       *time.Timer
	settled     time.Time // Description.Settled at the last call of tend; without it, the time then
	finisher    *finisher

	mu      sync.Mutex
	keeper  *Keeper // does not change after Begin
	shared  bool    // several Files use the keeper, and KeepBy's caller closes it
	current *part   // the current file; nil before the first and after the last
	closed  bool
	size    int64            // bytes in earlier files
	taken   capture.Accounts // Captured and Bytes of the packets in earlier files
	own     capture.Accounts // the result of End; nil before
}

// Open opens the file at a path, or creates it with permissions for its owner only. A regular file
// is locked against other captures and stays unchanged until Begin empties it. Errors name the file
// by its path unless the options have another name. A FIFO without a reader is an error of the kind
// [ErrNoReader].
func Open(path string, o Options) (*File, error) {
	return OpenSeries(Rotation{Path: func(Place) string { return path }}, o)
}

// OpenSeries opens the first file of a series as Open does, unless its name needs the time stamp of
// the first packet. Errors name each file by its path.
func OpenSeries(r Rotation, o Options) (*File, error) {
	f := newFile(o)
	f.rotation = r
	f.rotation.Left = o.withoutOthers(r.Left)
	if r.Stamped {
		return f, nil
	}
	f.place = r.first(time.Now().Round(0))
	p, err := f.openAt(f.place, r.Keep > 0, f.rotation.hasLeft)
	if err != nil {
		return nil, err
	}
	f.current = p
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
	made := newFile(o)
	made.current = made.newPart(o.Name, o.Name, opened)
	return made, nil
}

func newFile(o Options) *File {
	return &File{producer: producer{options: o}, frames: newFrames(o.Compression)}
}

// Begin empties the file and encodes its header.
func (f *File) Begin(d capture.Description) error {
	p := f.current
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
	if err := f.passed; err != nil {
		d.Notice(err)
	}
	f.description, f.header = d, f.prepare(&d)
	f.departures = departures{leaving: make(map[int]*departure), retired: make(map[int]bool)}
	if d.IsLive() && d.More != nil {
		f.splitHeader()
	}
	f.reported = make(capture.Accounts, len(d.Sources))
	f.mu.Lock()
	f.taken = make(capture.Accounts, len(d.Sources))
	f.mu.Unlock()
	f.finisher = newFinisher(&f.rotation, f.Keeper(d.Notice), len(d.Sources))
	var name string
	if p != nil {
		f.keeper.release(p.path)
		f.start(p)
		name = p.stream.name
	} else {
		name = f.rotation.Path(f.rotation.first(d.Started))
	}
	if err := f.beginQueue(f, name, &d); err != nil {
		f.finisher.end()
		return err
	}
	f.begun = true
	return nil
}

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
	f.endQueue() // f.err and p.err below have its error
	f.stopTimer()
	if f.place.Period.IsZero() && f.current == nil && f.err == nil { // there was no packet
		f.err = f.beginFile(f.rotation.first(time.Now().Round(0)))
	}
	if f.current != nil && f.err == nil {
		// MaxBytes or MinFree may refuse the last frame. Its packets then count as not sampled.
		if err := f.current.stream.flush(); errors.Is(err, capture.ErrEnough) {
			f.err = err
		}
	}
	account := final.Delivered // of all files, by the packets that they took
	err = f.err
	if errors.Is(err, capture.ErrEnough) {
		account, err = func(taken capture.Accounts) capture.Accounts { return passedOver(final, taken, f.reported) }, nil
	}
	p := f.current
	if p != nil {
		p.last = true
		ended := f.endFile(func(taken capture.Accounts) capture.Accounts { return account(f.taken.Plus(taken)).Minus(f.reported) }, p.stream.forceEnd)
		if !errors.Is(ended, capture.ErrEnough) {
			err = cmp.Or(err, ended)
		}
	}
	f.finisher.end()
	if p != nil && p.err != nil {
		err = p.err // it is the earlier error
	}
	err = cmp.Or(err, f.finisher.failure(), f.Close())
	return withUnstored(account(f.taken), f.finisher.unstored), err
}

// Give changes the user and group, by id, of a file that Open or OpenSeries created. A file that
// existed before stays as it is. Later files of a series belong to the user and group that this
// process has when it creates them.
func (f *File) Give(uid, gid int) error {
	if f.current == nil {
		return nil
	}
	return f.current.file.Give(uid, gid)
}

// IsNew reports whether Open or OpenSeries created the file, or will create it.
func (f *File) IsNew() bool { return f.current == nil || f.current.file.IsNew() }

// Keeper returns the Keeper that enforces Keep, Left, MaxBytes and MinFree of the Rotation. Call it
// before Begin. notice is called once, for the first file that cannot be removed.
func (f *File) Keeper(notice func(error)) *Keeper {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keeper == nil {
		f.keeper = newKeeper(&f.rotation, notice)
	}
	return f.keeper
}

// KeepBy makes the limits of another File's Rotation apply to the files of both together. Call it
// before Begin, with the other File's Keeper. The caller must close a shared Keeper.
func (f *File) KeepBy(k *Keeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeper, f.shared = k, true
}

// Enough returns, after End, an error of the kind [ErrEnough] with the limit of the Rotation that
// was reached; nil if no limit was.
func (f *File) Enough() error {
	if errors.Is(f.err, capture.ErrEnough) {
		return f.err
	}
	return nil
}

// Size returns how many bytes were written to the file, or to all files of the series, including
// removed ones.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		return f.size
	}
	return f.size + f.current.stream.size.Load()
}

// Kept returns how many bytes the existing files have. Files that the series has removed or
// overwritten do not count; files of an earlier run that its Keeper has taken over do. If several
// Files share a Keeper, Kept counts the files of all. It is 0 before Begin.
func (f *File) Kept() int64 {
	f.mu.Lock()
	k := f.keeper
	f.mu.Unlock()
	if k == nil {
		return 0
	}
	return k.bytes()
}

// Existing describes the existing files of a series, without those that it has removed or
// overwritten.
type Existing struct {
	Files   int
	Keep    int       // Rotation.Keep, the upper bound for Files; 0 = not a ring of files
	Bytes   int64     // as Kept returns it
	Packets uint64    // that this File, or others with its Keeper, have written to them
	Since   time.Time // when the oldest file began, by the wall clock; a file of an earlier run: when it was changed last
	Free    int64     // bytes of the disk that can still be written; negative = unknown, as after End
}

// Existing describes the files that exist now. It is zero before Begin. Any goroutine may call it.
func (f *File) Existing() Existing {
	f.mu.Lock()
	k, current := f.keeper, f.current
	f.mu.Unlock()
	if k == nil {
		return Existing{}
	}
	e := k.existing()
	if current != nil && current.file.IsRegular() {
		if free, err := current.file.Free(); err == nil {
			e.Free = free
		}
	}
	return e
}

// Accounts returns the File's accounts so far; session returns the session's accounts. Packets in a
// file are Captured; packets that wait to be written count only in Seen. After End it returns the
// accounts that End returned. Any goroutine may call it.
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

// takenNow returns two accounts by source: own, the result of End, is nil before End; taken, of the
// packets in the files so far, is nil before Begin.
func (f *File) takenNow() (own, taken capture.Accounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken = slices.Clone(f.taken)
	if taken != nil && f.current != nil {
		taken = taken.Plus(f.current.stream.takenNow())
	}
	return slices.Clone(f.own), taken
}

// Close closes the file unless End already did; packets not yet written are lost. A file that Open
// created is removed if it was never begun.
func (f *File) Close() (err error) {
	f.mu.Lock()
	f.closed = true
	if f.current != nil {
		err = f.current.file.Close()
	}
	f.mu.Unlock()
	if f.begun {
		f.queue.end() // returns at once, because the file is closed
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
	return message.Errorf(capture.ErrEnough, format, args...)
}
