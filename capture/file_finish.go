package capture

import (
	"os"
	"slices"
	"sync"
)

// maxUnfinished is how many files may wait to be finished. Rotation waits when there are more: then
// the disk does not take files as fast as they are made.
const maxUnfinished = 8

// A finisher brings complete files to their disk, one after the other, on a goroutine of its own,
// because that may take seconds. It also keeps the number of files of a ring.
type finisher struct {
	rotation *Rotation
	parts    chan *part
	ended    chan struct{}
	once     sync.Once

	mu       sync.Mutex
	finished sync.Cond  // a file was finished
	waiting  []*part    // to be finished
	own      []ringFile // finished; of a ring alone
	size     int64      // bytes in the files that were finished and not removed
	err      error
	refused  Accounts // Captured and Bytes of the files that the disk did not take
}

// A ringFile is a finished file of a ring.
type ringFile struct {
	path string
	info os.FileInfo
}

func newFinisher(r *Rotation, sources int) *finisher {
	f := &finisher{rotation: r, refused: make(Accounts, sources), parts: make(chan *part, maxUnfinished), ended: make(chan struct{})}
	f.finished.L = &f.mu
	go f.run()
	return f
}

func (f *finisher) run() {
	defer close(f.ended)
	for p := range f.parts {
		info, _ := p.file.Stat()
		err := p.finish()
		if err == nil && f.rotation.Finished != nil {
			f.rotation.Finished(p.path)
		}
		f.mu.Lock()
		if f.err == nil {
			f.err = err
		}
		f.waiting = slices.DeleteFunc(f.waiting, func(w *part) bool { return w == p })
		f.size += p.stream.size.Load()
		if p.refused {
			f.refused = f.refused.plus(p.stream.taken)
		}
		if f.rotation.Keep > 0 && info != nil && err == nil {
			f.own = append(f.own, ringFile{p.path, info})
			for !p.last && len(f.own) >= f.rotation.Keep {
				f.remove()
			}
		}
		f.finished.Broadcast()
		f.mu.Unlock()
	}
}

// add takes a complete file.
func (f *finisher) add(p *part) {
	f.mu.Lock()
	f.waiting = append(f.waiting, p)
	f.mu.Unlock()
	f.parts <- p
}

// release waits until no file of this path is to be finished, because it will be overwritten.
func (f *finisher) release(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for slices.ContainsFunc(f.waiting, func(p *part) bool { return p.path == path }) {
		f.finished.Wait()
	}
	f.own = slices.DeleteFunc(f.own, func(r ringFile) bool {
		if r.path == path {
			f.size -= r.info.Size()
		}
		return r.path == path
	})
}

// removeOldest removes the oldest file, and tells whether there was one.
func (f *finisher) removeOldest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.own) == 0 && len(f.waiting) > 0 {
		f.finished.Wait()
	}
	if len(f.own) == 0 {
		return false
	}
	f.remove()
	return true
}

// remove removes the oldest file, if it is still the one that was finished. The caller holds mu.
func (f *finisher) remove() {
	oldest := f.own[0]
	f.own = slices.Delete(f.own, 0, 1)
	f.size -= oldest.info.Size()
	if at, err := os.Lstat(oldest.path); err == nil && os.SameFile(at, oldest.info) {
		os.Remove(oldest.path)
	}
}

// bytes is how many bytes there are in all files but the present one.
func (f *finisher) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.size
	for _, p := range f.waiting {
		n += p.stream.size.Load()
	}
	return n
}

// failure returns the first error.
func (f *finisher) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// end waits until all files are finished. Afterwards refused belongs to the caller. It may be
// called again.
func (f *finisher) end() {
	f.once.Do(func() { close(f.parts) })
	<-f.ended
}
