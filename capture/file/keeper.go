package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Keeper tracks the existing files of a series, or of several Files that share it (see
// File.KeepBy): those being written and those that are finished. It counts their bytes, and removes
// the oldest files of a ring of files. Any goroutine may call its methods.
type Keeper struct {
	keep     int   // Rotation.Keep
	maxBytes int64 // Rotation.MaxBytes
	notice   func(error)

	mu       sync.Mutex
	finished sync.Cond        // a file was finished
	parts    []*part          // being written or waiting to be finished
	own      []ringFile       // finished files of a ring, the oldest first; empty without a ring
	sizes    map[string]int64 // bytes in finished files by path, without a ring; at most maxSizes
	size     int64            // bytes in finished files that were neither removed nor overwritten
	exceeded bool             // a notice said that a file of the ring could not be removed
}

// maxSizes limits the memory for paths. It is more than a day has seconds, because names with a
// time of the day come again after a day. Of a series with more paths, some files that it
// overwrites stay in the sum.
const maxSizes = 100_000

// A ringFile is a finished file of a ring of files.
type ringFile struct {
	path string
	info os.FileInfo
}

// newKeeper returns a keeper. For a ring it takes over the files of an earlier run (Rotation.Left)
// that are regular and that nobody writes to, and removes the oldest if there are too many. notice
// is called once, for the first file that cannot be removed.
func newKeeper(r *Rotation, notice func(error)) *Keeper {
	k := &Keeper{keep: r.Keep, maxBytes: r.MaxBytes, notice: notice, sizes: make(map[string]int64)}
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
			k.exceed(err)
			continue
		}
		k.own = append(k.own, ringFile{path, info})
		k.size += info.Size()
	}
	for len(k.own) >= k.keep || k.maxBytes > 0 && k.size > k.maxBytes {
		k.remove()
	}
	return k
}

// begin adds a file that is written from now on.
func (k *Keeper) begin(p *part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.keep > 0 && len(k.own) > 0 && len(k.own)+len(k.parts) >= k.keep {
		k.remove()
	}
	k.parts = append(k.parts, p)
}

// complete marks a file as only waiting to be finished.
func (k *Keeper) complete(p *part) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.complete = true
}

// finish moves a file to the finished ones. If info is nil, the file does not become one of the
// ring's.
func (k *Keeper) finish(p *part, info os.FileInfo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts = slices.DeleteFunc(k.parts, func(other *part) bool { return other == p })
	size := p.stream.size.Load()
	k.size += size
	if k.keep == 0 && len(k.sizes) < maxSizes {
		k.sizes[p.path] = size
	}
	if k.keep > 0 && info != nil {
		k.own = append(k.own, ringFile{p.path, info})
		for !p.last && len(k.own) >= k.keep {
			k.remove()
		}
	}
	k.finished.Broadcast()
}

// isWaiting tells whether files that match wait to be finished. The caller holds mu.
func (k *Keeper) isWaiting(matches func(*part) bool) bool {
	return slices.ContainsFunc(k.parts, func(p *part) bool { return p.complete && matches(p) })
}

// release waits until no file of this path waits to be finished, because the caller will overwrite
// it. It tells whether the path was one of the ring's files.
func (k *Keeper) release(path string) (was bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.isWaiting(func(p *part) bool { return p.path == path }) {
		k.finished.Wait()
	}
	k.size -= k.sizes[path]
	delete(k.sizes, path)
	k.own = slices.DeleteFunc(k.own, func(r ringFile) bool {
		if r.path == path {
			was = true
			k.size -= r.info.Size()
		}
		return r.path == path
	})
	return was
}

// removeOldest removes the oldest file, and tells whether there was one.
func (k *Keeper) removeOldest() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.own) == 0 && k.isWaiting(func(*part) bool { return true }) {
		k.finished.Wait()
	}
	if len(k.own) == 0 {
		return false
	}
	k.remove()
	return true
}

// remove removes the oldest file if it is still the same file and nobody writes to it. The caller
// holds mu.
func (k *Keeper) remove() {
	oldest := k.own[0]
	k.own = slices.Delete(k.own, 0, 1)
	k.size -= oldest.info.Size()
	if at, err := os.Lstat(oldest.path); err != nil || !os.SameFile(at, oldest.info) {
		return
	}
	free, err := outfile.IsFree(oldest.path)
	if free {
		err = os.Remove(oldest.path)
	}
	k.exceed(err)
}

// exceed gives a notice, once, why a file of the ring was not removed. It does nothing if err is
// nil or the file no longer exists. A file may stay, for example, if it belongs to another user in
// a directory like /tmp.
func (k *Keeper) exceed(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || k.exceeded {
		return
	}
	k.exceeded = true
	k.notice(fmt.Errorf("the ring of files exceeds its limit: cannot remove an old file: %w: remove it, and perhaps others, by hand", err))
}

// bytes is the size of all files together.
func (k *Keeper) bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.size
	for _, p := range k.parts {
		n += p.stream.size.Load()
	}
	return n
}
