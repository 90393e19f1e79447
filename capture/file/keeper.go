package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Keeper tracks the existing files of a series, or of several Files that share it (see
// File.KeepBy), both finished and unfinished ones: a file is finished when the finisher has synced
// it to disk and given it its final name. It counts their bytes, and removes the oldest files of a
// ring of files. Any goroutine may call its methods.
type Keeper struct {
	limits Rotation // Keep, MaxBytes, MinFree and Atomic
	notice func(error)
	free   func(onDisk) (bytes int64, showsLate bool, err error) // tests replace it

	mu       sync.Mutex
	finished sync.Cond          // a file was finished
	parts    []*part            // files that are being written or wait to be finished
	ring     []ringFile         // finished files of a ring, the oldest first; empty without a ring
	byPath   map[string]content // finished files by path, without a ring; at most maxSizes
	size     int64              // bytes in finished files that were neither removed nor overwritten
	space    space              // free bytes of the disk; unused without MinFree
	syncing  bool               // beginSync has returned true, and syncDisk has not ended

	noticedStays, noticedOmits bool // the notice of noticeStays, of noticeOmits was given
}

// onDisk is an open file, an outfile.File or outfile.Removal, with the state of its disk.
type onDisk interface {
	Free() (int64, error)
	ShowsLate() bool
}

func freeOn(d onDisk) (bytes int64, showsLate bool, err error) {
	bytes, err = d.Free()
	return bytes, d.ShowsLate(), err
}

// maxSizes limits the memory for paths. It is more than the seconds of a day, because names with a
// time of day repeat after a day. If a series has more paths, some files that it overwrites stay in
// the sum.
const maxSizes = 100_000

// A ringFile is a finished file of a ring of files.
type ringFile struct {
	path string
	info os.FileInfo
	content
}

// A content is the size of a file, its packets, and when it began.
type content struct {
	size    int64     // bytes
	packets uint64    // 0 for a file of an earlier run
	began   time.Time // for a file of an earlier run: when it was changed last
}

// contentOf returns the content of a file of this run. Any goroutine may call it.
func contentOf(p *part) content {
	return content{p.stream.size.Load(), p.stream.takenNow().Total().Captured, p.began}
}

// newKeeper returns a Keeper. A ring takes over each file of an earlier run (Rotation.Left) that is
// regular and to which no process writes, and removes the oldest if there are too many. notice is
// called for the first file that cannot be removed, and when the ring first omits packets.
func newKeeper(r *Rotation, notice func(error)) *Keeper {
	k := &Keeper{limits: *r, notice: notice, free: freeOn, byPath: make(map[string]content)}
	k.finished.L = &k.mu
	if r.Keep == 0 {
		return k
	}
	for _, path := range r.Left {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if free, err := outfile.IsFree(path); !free {
			k.noticeStays(err)
			continue
		}
		k.ring = append(k.ring, ringFile{path, info, content{size: info.Size(), began: info.ModTime()}})
		k.size += info.Size()
	}
	for len(k.ring) >= r.Keep || r.MaxBytes > 0 && k.size > r.MaxBytes {
		k.remove(0, nil)
	}
	return k
}

// begin adds a file that is written from now on.
func (k *Keeper) begin(p *part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.limits.Keep > 0 && len(k.ring) > 0 && len(k.ring)+len(k.parts) >= k.limits.Keep {
		k.remove(0, nil)
	}
	k.parts = append(k.parts, p)
}

// markComplete marks a file as waiting to be finished.
func (k *Keeper) markComplete(p *part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.isComplete = true
}

// finish moves a file from parts to the finished files. If info is nil, it is not added to the
// ring, because it could not be finished.
func (k *Keeper) finish(p *part, info os.FileInfo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts = slices.DeleteFunc(k.parts, func(other *part) bool { return other == p })
	has := contentOf(p)
	k.size += has.size
	if k.limits.Keep == 0 && len(k.byPath) < maxSizes {
		k.byPath[p.path] = has
	}
	if k.limits.Keep > 0 && info != nil {
		k.ring = append(k.ring, ringFile{p.path, info, has})
		for !p.last && len(k.ring) >= k.limits.Keep {
			k.remove(0, nil)
		}
	}
	k.finished.Broadcast()
}

// isWaiting reports whether files that match wait to be finished. The caller holds mu.
func (k *Keeper) isWaiting(matches func(*part) bool) bool {
	return slices.ContainsFunc(k.parts, func(p *part) bool { return p.isComplete && matches(p) })
}

func anyPart(*part) bool { return true }

// release waits until no file of this path waits to be finished, and stops tracking such files,
// because the caller will overwrite the path. With Atomic it removes those of a ring. It reports
// whether it was a path of the ring's files.
func (k *Keeper) release(path string) (wasOfRing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.isWaiting(func(p *part) bool { return p.path == path }) {
		k.finished.Wait()
	}
	k.size -= k.byPath[path].size
	delete(k.byPath, path)
	for i := len(k.ring) - 1; i >= 0; i-- {
		if !isFileOf(path, k.ring[i].path) {
			continue
		}
		wasOfRing = true
		if k.limits.Atomic { // otherwise the old file would stay until the new one is finished
			k.remove(i, nil)
		} else {
			k.drop(i)
		}
	}
	return wasOfRing
}

// hasOlder reports whether there are files, besides the one being written, that can be removed.
func (k *Keeper) hasOlder() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.ring) > 0 || k.isWaiting(anyPart)
}

// drop stops tracking the finished file with an index in ring. The caller holds mu.
func (k *Keeper) drop(i int) ringFile {
	dropped := k.ring[i]
	k.ring = slices.Delete(k.ring, i, i+1)
	k.size -= dropped.size // as newKeeper or finish has added it
	return dropped
}

// remove removes the finished file with an index in ring, if its path still leads to the same file
// and no process writes to it. file is the open file, or nil: a caller that has opened it does not
// close it. Otherwise remove would open it a second time, and a process that starts in between,
// such as a command of -z, would have the first descriptor until its exec and count as a reader.
// The caller holds mu.
func (k *Keeper) remove(i int, file *outfile.Removal) {
	leaving := k.drop(i)
	if at, err := os.Lstat(leaving.path); err != nil || !os.SameFile(at, leaving.info) {
		if file != nil {
			file.Close()
		}
		return
	}
	var err error
	if file == nil {
		if file, err = outfile.OpenRemoval(leaving.path); file == nil {
			k.noticeStays(err)
			return
		}
	}
	// Frees counts the one name that is removed below. The free bytes are read before that, too.
	isFreed, room := file.Frees(1) || k.space.holdsMost(), file.Occupied()
	freeErr := k.readFree(file)
	err = os.Remove(leaving.path)
	k.noticeStays(err)
	if err != nil || isFreed || k.limits.MinFree == 0 {
		file.Close()
		file = nil // its room becomes free now
	}
	if err == nil && freeErr == nil && k.limits.MinFree > 0 {
		k.space.add(file, room, time.Now())
	}
}

// noticeStays gives a notice, once, that a file of the ring was not removed because of err, for
// example because it belongs to another user in a directory like /tmp. It ignores nil, and the
// error that the file no longer exists.
func (k *Keeper) noticeStays(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || k.noticedStays {
		return
	}
	k.noticedStays = true
	k.notice(fmt.Errorf("the ring of files exceeds its limit: cannot remove an old file: %w: remove it, and perhaps others, by hand", err))
}

// bytes returns the size of all files together.
func (k *Keeper) bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sum()
}

// sum is bytes for a caller that holds mu.
func (k *Keeper) sum() int64 {
	n := k.size
	for _, p := range k.parts {
		n += p.stream.size.Load()
	}
	return n
}

// existing is File.Existing without Free, which the Keeper cannot determine.
func (k *Keeper) existing() Existing {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := Existing{Keep: k.limits.Keep, Bytes: k.sum(), Free: -1}
	add := func(c content) {
		e.Files++
		e.Packets += c.packets
		if e.Since.IsZero() || c.began.Before(e.Since) {
			e.Since = c.began
		}
	}
	for i := range k.ring {
		add(k.ring[i].content)
	}
	for _, p := range k.parts {
		add(contentOf(p))
	}
	for _, c := range k.byPath {
		add(c)
	}
	return e
}

// Close closes the removed files that the Keeper holds open because other programs have them open.
// File.Close calls it unless the Keeper is shared.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.space.close()
}
