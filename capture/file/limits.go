package file

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// Bytes reserved for the closing statistics of each source, without and for their comments. Longer
// comments may not fit.
const (
	trailerRoom = 1 << 10
	commentRoom = 16 << 10
)

// A file takes whole blocks of the disk, mostly of 4 KiB, even if its last block is almost empty.
// blockRoom is reserved for the last blocks of the current file and of the next one.
const blockRoom = 8 << 10

// grant returns how many of these bytes may be written to the current file. If not all may, it also
// returns the error that ends the session. A ring of files has no such error.
func (f *File) grant(bytes int64) (int64, error) {
	granted, err := f.keeper.claim(f.current, bytes, f.reserve())
	f.finisher.sync(f.current.file) // claim may have removed files whose room is free after a sync
	return granted, err
}

// isSpent reports whether a ring of files begins its next file before the current one has reached
// its limits. That makes room: only finished files can be removed. bytes are to be written next.
func (f *File) isSpent(bytes int64) bool {
	r, s := &f.rotation, &f.current.stream
	hasLimit := s.grant != nil // of room: MaxBytes or MinFree
	if r.Keep == 0 || r.isSingle() || !hasLimit {
		return false
	}
	size := s.size.Load()
	hasPackets := size > s.header
	room := func() int64 { return f.keeper.roomFor(f.current) - f.reserve() }
	switch {
	case s.full && hasPackets: // it takes no more packets, and can be removed once it is finished
		return true
	case s.full: // another file takes packets only if there is room again
		return room() >= bytes
	case !hasPackets, f.keeper.hasOlder(): // removing an older file makes more room
		return false
	case s.frames != nil:
		size += int64(len(s.frames.blocks)) // an upper bound: they are not compressed yet
	}
	return room() < size // the next file has less room than this one takes
}

// CheckFree returns an error of the kind [ErrDiskLow] if the session could capture no packet: the
// disk already has less than MinFree bytes free, and no earlier run has left a file to remove.
func (r *Rotation) CheckFree() error {
	if r.Stamped {
		return nil // the path depends on the stamp of the first packet
	}
	path := r.Path(r.first(time.Now().Round(0)))
	return r.checkFree(path, func() (int64, error) { return outfile.FreeAt(path) })
}

func (r *Rotation) checkFree(path string, free func() (int64, error)) error {
	if r.MinFree == 0 || len(r.Left) > 0 {
		return nil
	}
	bytes, err := free()
	if err == nil && bytes < r.MinFree {
		err = tooFull(path, bytes, r.MinFree)
	}
	return err
}

// tooFull returns the error that a disk has too little free.
func tooFull(path string, free, least int64) error {
	return message.Errorf(ErrDiskLow, "the disk of %s has only %s free, and %s must stay free", path, machine.Amount(free), machine.Amount(least))
}

// reserve returns how many bytes are kept free for the closing statistics of the current file.
func (f *File) reserve() int64 {
	each := int64(trailerRoom)
	if f.options.Comments != nil {
		each += commentRoom
	}
	// Capture files that are read may add sources to those of the description.
	s, sources := &f.current.stream, max(len(f.description.Sources), len(f.current.stream.taken))
	// In a live capture sources may come and go. Then only those count that the file describes, by
	// a number, and whose statistics it does not have yet.
	if s.numbers != nil {
		sources = 0
		for source, number := range s.numbers {
			if number > 0 && !f.departures.retired[source] {
				sources++
			}
		}
	}
	return each * int64(sources)
}

// grantNext returns an error if there is no room for the header and statistics of the next file
// besides the statistics of the current one. A ring does not end for lack of room: for the next
// packets it removes its oldest file, which may be the current one.
func (f *File) grantNext() error {
	if f.rotation.Keep > 0 {
		return nil // see isSpent
	}
	bytes := f.headerSize() + f.reserve()
	// The disk itself: the reserve of root is included, and so are the rests of last blocks.
	if f.current.file.IsFull(bytes + blockRoom) {
		return outfile.WriteError(f.current.stream.name, unix.ENOSPC)
	}
	// The limits of the rotation. The sizes of files, which MaxBytes limits, have no such rests.
	if f.rotation.MinFree > 0 {
		bytes += blockRoom
	}
	_, full := f.grant(bytes)
	return full
}

// headerSize returns an upper bound for the bytes of the next file's header.
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

// allWritten returns the error that ends a series after Rotation.Files files.
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

// claim returns how many of these bytes may be written to a file while the reserved bytes stay
// free. If not all may, a ring first removes its oldest files; without a ring, claim returns an
// error with the reason.
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
		case k.limits.Keep > 0:
			// For MaxBytes it does not matter which programs have a file open. A file that is open
			// must go if the room is too little even after others close the removed files.
			skipOpen, must := errors.Is(why, ErrDiskLow), room+held < wanted
			if k.removeOldest(skipOpen, must) {
				continue // with more room
			}
			k.noticeOmits(why, held)
			why = nil // a ring goes on
		}
		granted := max(room-reserved, 0)
		k.space.write(granted)
		return granted, why
	}
}

// noticeOmits gives a notice, once, that a ring takes no packets, and why.
func (k *Keeper) noticeOmits(why error, held int64) {
	if k.noticedOmits {
		return
	}
	k.noticedOmits = true
	remedy := "raise the limit"
	switch {
	case held > 0:
		remedy = fmt.Sprintf("other programs have %s of removed files open: close them", machine.Amount(held))
	case errors.Is(why, ErrDiskLow):
		remedy = "free some of it"
	}
	// Not %w: for errors of this kind the command line adds the remedy to use a ring of files.
	k.notice(fmt.Errorf("the ring of files takes no packets until there is room: %v: %s", why, remedy))
}

// roomFor returns by how many bytes the current file may grow without the removal of others.
func (k *Keeper) roomFor(p *part) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	room, _, _, _ := k.room(p)
	return room
}

// room returns by how many bytes the current file may grow, and why not by more. held is how many
// more bytes it may grow after other programs have closed removed files. The caller holds mu.
func (k *Keeper) room(p *part) (room, held int64, why, err error) {
	room = math.MaxInt64
	if most := k.limits.MaxBytes; most > 0 {
		room = most - k.sum()
		why = errEnough("all files together have reached their limit of %s", machine.Amount(most))
	}
	if least := k.limits.MinFree; least > 0 {
		if err := k.readFree(p.file); err != nil {
			return 0, 0, nil, err
		}
		free, closing := k.space.free()
		if free-least < room {
			room, held, why = free-least, closing, tooFull(p.path, free, least)
		}
	}
	return room, held, why, nil
}

// readFree reads how much is free on a file's disk, if MinFree limits that. The caller holds mu.
func (k *Keeper) readFree(file onDisk) error {
	if k.limits.MinFree == 0 {
		return nil
	}
	free, showsLate, err := k.free(file)
	if err == nil {
		k.space.showsLate = showsLate
		k.space.update(free+k.preallocated(), time.Now())
	}
	return err
}

// preallocated returns how many bytes the disk has reserved beyond the sizes of open files. XFS
// reserves up to the size of the file once more. Files grow into these bytes, and a close frees the
// rest. The caller holds mu.
func (k *Keeper) preallocated() (bytes int64) {
	for _, p := range k.parts {
		bytes += max(p.file.Occupied()-blockRoom-p.stream.size.Load(), 0)
	}
	return bytes
}

// beginSync reports whether the caller must call syncDisk, so that the file system reports more
// free bytes. If so, it returns false to other callers until syncDisk has ended.
func (k *Keeper) beginSync() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.syncing || !k.space.needsSync() {
		return false
	}
	k.syncing = true
	return true
}

// syncDisk syncs the disk of a file, and then counts as free what the file system reports.
func (k *Keeper) syncDisk(file *outfile.File) {
	k.mu.Lock()
	began := time.Now()
	k.space.sinceSync = 0
	k.mu.Unlock()
	err := file.SyncDisk()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.syncing = false
	if err == nil && k.readFree(file) == nil {
		k.space.endSync(began, time.Now())
	}
}

// removeOldest removes the oldest file, and reports whether it did. With skipOpen it skips files
// that another program has open, because their removal frees no room: a program that reads the
// files one after the other often has the oldest open. If all are open, it removes the oldest only
// with must. The caller holds mu.
func (k *Keeper) removeOldest(skipOpen, must bool) bool {
	oldest, file := k.oldest(skipOpen)
	for oldest < 0 && k.isWaiting(anyPart) { // a complete file can be removed once it is on disk
		k.finished.Wait()
		oldest, file = k.oldest(skipOpen)
	}
	if oldest < 0 && !must || len(k.ring) == 0 {
		return false
	}
	k.remove(max(oldest, 0), file)
	return true
}

// oldest returns the index of the oldest finished file; -1 if there is none. With skipOpen it is
// the oldest that no other program has open, and file is that file, opened. The caller holds mu.
func (k *Keeper) oldest(skipOpen bool) (index int, file *outfile.Removal) {
	for i, r := range k.ring {
		if !skipOpen {
			return i, nil
		}
		if f, err := outfile.OpenRemoval(r.path); err == nil && f != nil {
			if f.Frees(1) { // this path is its only name
				return i, f
			}
			f.Close()
		}
	}
	return -1, nil
}

// noteEmptied counts the room of a file that the caller is about to empty as free.
func (k *Keeper) noteEmptied(file *outfile.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limits.MinFree > 0 && k.readFree(file) == nil {
		k.space.add(nil, file.Occupied(), time.Now())
	}
}
