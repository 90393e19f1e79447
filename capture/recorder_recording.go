package capture

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Recording is a file that a recorder has written.
type Recording struct {
	File    string
	Trigger string    // what it was written for
	Time    time.Time // when that happened
	Further uint64    // how many triggers came while it was recorded, for which there is no other file
	Packets uint64    // that reached the file
}

// A recording is a part of the ring that is to be written.
type recording struct {
	Recording
	end     atomic.Uint64 // the place in the ring where it ends; notYet = not known
	further atomic.Uint64
}

const notYet = ^uint64(0)

// write writes one recording after the other, until there will be no more. The file of the one
// before is completed meanwhile.
func (r *Recorder) write() {
	defer close(r.ended)
	var completing sync.WaitGroup
	for next := range r.next {
		written := r.writeOne(next)
		completing.Wait()
		completing.Go(func() { r.complete(written) })
		r.free.Store(true)
	}
	completing.Wait()
}

// A written is a recording that was given to its file.
type written struct {
	*recording
	file  *File    // nil where it could not be opened
	given Accounts // of its packets
	err   error
}

// writeOne gives a recording to a file of its own. After an error its packets are taken from the
// ring all the same.
func (r *Recorder) writeOne(next *recording) written {
	w := written{recording: next, given: make(Accounts, len(r.description.Sources))}
	w.file, w.File, w.err = r.options.Open()
	if w.err == nil {
		if r.keeper == nil {
			r.keeper = newKeeper(&w.file.rotation, r.notice)
		}
		w.file.keeper = r.keeper
		d := r.description
		d.Recorded = fmt.Sprintf("%s, at %s", next.Trigger, next.Time.Format(time.RFC3339Nano))
		w.err = w.file.Begin(d)
	}
	one := make([]Packet, 1)
	p := &one[0]
	var around wrapped
	for r.hasMore(&w) {
		r.ring.first(p, &around)
		a := &w.given[p.Source]
		a.Captured++
		a.Bytes += uint64(len(p.Data))
		a.Lost += p.Dropped
		if w.err == nil {
			w.err = w.file.Write(one)
		}
		r.ring.drop()
		if r.waiting.Load() {
			signal(r.roomy)
		}
	}
	r.owns.Store(false)
	signal(r.roomy)
	return w
}

// complete ends the file of a recording and counts what it has taken.
func (r *Recorder) complete(w written) {
	for i := range w.given {
		w.given[i].Seen = w.given[i].Captured + w.given[i].Lost
	}
	own := w.given.Delivered(make(Accounts, len(w.given)))
	if w.file != nil {
		taken, err := w.file.End(w.given)
		own, w.err = taken, cmp.Or(w.err, err)
		if w.err == nil && errors.Is(w.file.err, ErrEnough) {
			w.err = w.file.err
		}
		w.file.Close() // where it was not begun
	}
	for i, a := range own {
		r.taken[i].Captured += a.Captured
		r.taken[i].Bytes += a.Bytes
		r.refused[i] += a.NotTaken // besides those, there are packets that were passed over
	}
	if w.err != nil {
		r.failure.CompareAndSwap(nil, &w.err)
		if !errors.Is(w.err, ErrEnough) {
			return
		}
	}
	if r.options.Done != nil {
		w.Further, w.Packets = w.further.Load(), own.Total().Captured
		r.options.Done(w.Recording)
	}
}

// hasMore waits for the next packet of a recording, or for its end. Meanwhile it flushes the file.
func (r *Recorder) hasMore(w *written) bool {
	for {
		end := w.end.Load() // before head, which it may be equal to
		tail := r.ring.tail.Load()
		switch {
		case tail >= end: // Write may have overwritten all of it
			return false
		case tail < r.ring.head.Load():
			return true
		}
		if w.err == nil {
			w.err = w.file.Flush()
		}
		if w.err != nil {
			r.failure.CompareAndSwap(nil, &w.err)
		}
		select {
		case <-r.wake:
		case <-time.After(10 * time.Millisecond):
		}
	}
}
