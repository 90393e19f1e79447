package file

import (
	"sync"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// maxUnfinished is how many files may wait to be finished. If the disk is too slow for that,
// rotation waits.
const maxUnfinished = 8

// A finisher finishes complete files, one after the other: it syncs them to disk, and gives them
// their final names. It has its own goroutine, because a sync may take seconds.
type finisher struct {
	rotation *Rotation
	keeper   *Keeper
	parts    chan *part         // complete files
	syncs    chan *outfile.File // files whose disks must be synced
	ended    chan struct{}
	once     sync.Once // closes parts

	mu       sync.Mutex
	err      error            // the first
	unstored capture.Accounts // Captured and Bytes of files that did not reach the disk
}

func newFinisher(r *Rotation, k *Keeper, sources int) *finisher {
	f := &finisher{
		rotation: r,
		keeper:   k,
		unstored: make(capture.Accounts, sources),
		parts:    make(chan *part, maxUnfinished),
		syncs:    make(chan *outfile.File, 1),
		ended:    make(chan struct{}),
	}
	go f.run()
	return f
}

func (f *finisher) run() {
	defer close(f.ended)
	for {
		select {
		case p, more := <-f.parts:
			if !more {
				return
			}
			f.finish(p)
		case file := <-f.syncs:
			f.keeper.syncDisk(file)
		}
	}
}

func (f *finisher) finish(p *part) {
	info, _ := p.file.Stat() // first, because p.finish closes the file
	err := p.finish()
	if err == nil && f.rotation.Finished != nil {
		f.rotation.Finished(p.path)
	}
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	if p.unstored {
		f.unstored = f.unstored.Plus(p.stream.taken)
	}
	f.mu.Unlock()
	if err != nil {
		info = nil
	}
	f.keeper.finish(p, info)
}

// sync requests a sync of a file's disk if that makes the file system report more free bytes.
func (f *finisher) sync(file *outfile.File) {
	if f.keeper.beginSync() {
		select {
		case f.syncs <- file:
		default: // a request is already waiting
		}
	}
}

// add hands over a complete file. It waits while maxUnfinished others wait.
func (f *finisher) add(p *part) {
	f.keeper.markComplete(p)
	f.parts <- p
}

// failure returns the first error of a file that could not be finished.
func (f *finisher) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// end waits until all files are finished. After it, the caller may read unstored. It may be
// called again.
func (f *finisher) end() {
	f.once.Do(func() { close(f.parts) })
	<-f.ended
}
