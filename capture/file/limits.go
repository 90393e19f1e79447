package file

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// Bytes reserved for the closing statistics of each source that does not have them yet. commentRoom
// is added if they have comments, and is enough unless these are very long.
const (
	trailerRoom = 1 << 10
	commentRoom = 16 << 10
)

// A file takes whole blocks of the disk, mostly of 4 KiB, even if its last block is almost empty.
// blockRoom is reserved for the last blocks of the current file and of the next one.
const blockRoom = 8 << 10

// grant returns how many of these bytes may be written to the current file, and an error if the
// session ends because that is not all. A ring of files has no such error.
func (f *File) grant(bytes int64) (int64, error) {
	granted, err := f.keeper.claim(f.present, bytes, f.reserve())
	f.finisher.sync(f.present.file)
	return granted, err
}

// isSpent tells whether a ring of files begins the next file before the current one reaches its
// limits, because the current one takes nothing more, or because it has more than half of the room
// that there is: only a file that is finished can be removed to make room. bytes are to be written
// next.
func (f *File) isSpent(bytes int64) bool {
	r, s := &f.rotation, &f.present.stream
	if r.Keep == 0 || r.isSingle() || s.grant == nil {
		return false
	}
	size := s.size.Load()
	hasPackets := size > s.header
	if !s.full && (!hasPackets || f.keeper.hasOlder()) {
		return false
	}
	room := f.keeper.left(f.present) - f.reserve()
	if s.full {
		return hasPackets || room >= bytes
	}
	if s.frames != nil {
		size += int64(len(s.frames.blocks)) // at most
	}
	return room < size
}

// CheckFree returns an error of the kind [ErrDiskLow] if the disk already has less than MinFree
// bytes free and an earlier run has left no file that could be removed: nothing would be captured.
func (r *Rotation) CheckFree() error {
	if r.Stamped {
		return nil
	}
	path := r.Path(r.first(time.Now().Round(0)))
	return r.checkFree(path, func() (int64, error) { return outfile.FreeAt(path) })
}

func (r *Rotation) checkFree(path string, free func() (int64, error)) error {
	if r.MinFree == 0 || len(r.Left) > 0 {
		return nil
	}
	now, err := free()
	if err == nil && now < r.MinFree {
		err = tooFull(path, now, r.MinFree)
	}
	return err
}

// tooFull says that a disk has too little free.
func tooFull(path string, free, least int64) error {
	return errkind.Errorf(ErrDiskLow, "the disk of %s has only %s free, and %s must stay free", path, machine.Amount(free), machine.Amount(least))
}

// reserve returns how many bytes are kept free for the closing statistics of the current file.
func (f *File) reserve() int64 {
	each := int64(trailerRoom)
	if f.writer.options.Comments != nil {
		each += commentRoom
	}
	s, sources := &f.present.stream, max(len(f.description.Sources), len(f.present.stream.taken))
	if s.numbers != nil {
		sources = 0
		for source, number := range s.numbers {
			if number > 0 && !f.departures.gone[source] {
				sources++
			}
		}
	}
	return each * int64(sources)
}

// grantNext returns an error if there is no room for the header and statistics of the next file
// besides the statistics of the current one. A ring never ends for want of room: when more packets
// come, it removes its oldest file, which may be the current one.
func (f *File) grantNext() error {
	if f.rotation.Keep > 0 {
		return nil
	}
	bytes := f.headerSize() + f.reserve()
	if f.present.file.IsFull(bytes + blockRoom) {
		return outfile.WriteError(f.present.stream.name, unix.ENOSPC)
	}
	if f.rotation.MinFree > 0 {
		bytes += blockRoom
	}
	_, full := f.grant(bytes)
	return full
}

// headerSize is how many bytes the header of the next file has at most.
func (f *File) headerSize() int64 {
	if f.head == nil {
		return int64(len(f.header))
	}
	bytes := len(f.head)
	for _, d := range f.described {
		bytes += len(d.block)
	}
	return int64(bytes)
}

// allWritten returns the error of a series that has as many files as Rotation.Files allows.
func (f *File) allWritten() error {
	switch r := &f.rotation; {
	case r.Files == 1 && r.Size > 0:
		return errEnough("the file has its limit of %s", machine.Amount(r.Size))
	case r.Files == 1:
		return errEnough("the limit of 1 file is reached")
	default:
		return errEnough("the limit of %d files is reached", r.Files)
	}
}

// claim returns how many of these bytes may be written to a file, so that others stay reserved. If
// that is not all, it first removes the oldest files of a ring, and otherwise returns an error that
// says why.
func (k *Keeper) claim(p *part, bytes, reserved int64) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := bytes + reserved
	for {
		room, held, why, err := k.room(p)
		switch {
		case err != nil:
			return 0, err
		case room >= wanted:
			k.space.write(bytes)
			return bytes, nil
		case k.limits.Keep == 0:
			return max(room-reserved, 0), why
		case k.removeOldest(errors.Is(why, ErrDiskLow), room+held < wanted):
			continue
		}
		k.omit(why, held)
		return max(room-reserved, 0), nil
	}
}

// omit gives a notice, once, that a ring takes no packets, and why.
func (k *Keeper) omit(why error, held int64) {
	if k.omitted {
		return
	}
	k.omitted = true
	remedy := "raise the limit"
	switch {
	case held > 0:
		remedy = fmt.Sprintf("other programs have %s of removed files open: close them", machine.Amount(held))
	case errors.Is(why, ErrDiskLow):
		remedy = "free some of it"
	}
	// Not %w: what helps against these errors elsewhere is a ring.
	k.notice(fmt.Errorf("the ring of files takes no packets until there is room: %v: %s", why, remedy))
}

// left is how many bytes the file that is being written may grow by without removing others.
func (k *Keeper) left(p *part) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	room, _, _, _ := k.room(p)
	return room
}

// room returns how many bytes the file that is being written may grow by, and why not more. held is
// how many more there will be when other programs have closed removed files. The caller holds mu.
func (k *Keeper) room(p *part) (room, held int64, why, err error) {
	room = math.MaxInt64
	if most := k.limits.MaxBytes; most > 0 {
		room = most - k.sum()
		why = errEnough("all files together have reached their limit of %s", machine.Amount(most))
	}
	if least := k.limits.MinFree; least > 0 {
		if err := k.look(p.file); err != nil {
			return 0, 0, nil, err
		}
		free, closing := k.space.free()
		if free-least < room {
			room, held, why = free-least, closing, tooFull(p.path, free, least)
		}
	}
	return room, held, why, nil
}

// look reads how much is free on a file's disk, if that is limited. The caller holds mu.
func (k *Keeper) look(file onDisk) error {
	if k.limits.MinFree == 0 {
		return nil
	}
	free, err := k.free(file)
	if err == nil {
		k.space.isLate = file.ShowsLate()
		k.space.update(free+k.ahead(), time.Now())
	}
	return err
}

// ahead is how many bytes the disk has reserved for files that are not closed beyond their sizes:
// XFS does so, as much again as a file has. Files grow into them, and closing gives back the rest.
// The caller holds mu.
func (k *Keeper) ahead() (bytes int64) {
	for _, p := range k.parts {
		bytes += max(p.file.Room()-blockRoom-p.stream.size.Load(), 0)
	}
	return bytes
}

// needsSync tells whether the caller must call syncDisk, with which the disk shows more as free.
func (k *Keeper) needsSync() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.syncing || !k.space.needsSync() {
		return false
	}
	k.syncing = true
	return true
}

// syncDisk syncs a file's disk.
func (k *Keeper) syncDisk(file *outfile.File) {
	k.mu.Lock()
	began := time.Now()
	k.space.sinceSync = 0
	k.mu.Unlock()
	err := file.SyncDisk()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.syncing = false
	if err == nil && k.look(file) == nil {
		k.space.endSync(began, time.Now())
	}
}

// removeOldest removes the oldest file, and tells whether it did. With toFree it removes the oldest
// whose room becomes free: a program that reads the files one after the other often has the oldest
// open. Only if there is none it removes one that stays in use, and only if it must. The caller
// holds mu.
func (k *Keeper) removeOldest(toFree, must bool) bool {
	oldest, file := k.firstOwn(toFree)
	for oldest < 0 && k.isWaiting(func(*part) bool { return true }) {
		k.finished.Wait()
		oldest, file = k.firstOwn(toFree)
	}
	if oldest < 0 && !must || len(k.own) == 0 {
		return false
	}
	k.remove(max(oldest, 0), file)
	return true
}

// firstOwn returns the index of the oldest finished file or, with toFree, of the oldest whose room
// becomes free, and that file; -1 = none. The caller holds mu.
func (k *Keeper) firstOwn(toFree bool) (int, *outfile.Removal) {
	for i, r := range k.own {
		if !toFree {
			return i, nil
		}
		switch f, err := outfile.OpenRemoval(r.path); {
		case f == nil || err != nil:
		case f.Frees(1):
			return i, f
		default:
			f.Close()
		}
	}
	return -1, nil
}

// empty counts the room of a file that the caller empties.
func (k *Keeper) empty(file *outfile.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limits.MinFree > 0 && k.look(file) == nil {
		k.space.add(nil, file.Room(), time.Now())
	}
}
