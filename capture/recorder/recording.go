package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
)

// A Recording is a file that a recorder has written.
type Recording struct {
	File    string
	Trigger string    // why it was written
	Time    time.Time // when the trigger fired
	Further uint64    // triggers that fired during the recording and got no file of their own
	Packets uint64    // packets in the file
}

// A recording is a part of the ring to be written.
type recording struct {
	Recording
	end     atomic.Uint64 // the position in the ring at which it ends, or notYet
	further atomic.Uint64 // Recording.Further so far
}

const notYet = ^uint64(0) // later than every position

// write writes one recording after the other, until next is closed. While it writes one, the file
// of the previous one is completed.
func (r *Recorder) write() {
	defer close(r.ended)
	var completing sync.WaitGroup
	for next := range r.next {
		written := r.writeOne(next)
		completing.Wait()
		completing.Go(func() {
			r.complete(written)
			r.unfinished.Add(-1)
		})
		r.writerIdle.Store(true)
	}
	completing.Wait()
	if r.keeper != nil {
		r.keeper.Close()
	}
}

// A written is a recording whose packets were all passed to its file.
type written struct {
	*recording
	file  *file.File       // nil if Open failed
	given capture.Accounts // the accounts of its packets
	err   error
}

// writeOne writes a recording to its own file. Even after an error it removes the recording's
// packets from the ring.
func (r *Recorder) writeOne(next *recording) written {
	w := written{recording: next, given: make(capture.Accounts, len(*r.sources.Load()))}
	w.file, w.File, w.err = r.options.Open()
	if w.err == nil {
		if r.keeper == nil {
			r.keeper = w.file.Keeper(r.notice)
		}
		w.file.KeepBy(r.keeper)
		d := r.description
		d.Sources = *r.sources.Load() // an index keeps its source until the file is complete
		if d.More != nil {
			d.More = func(come int) []capture.Source { return capture.SourcesSince(*r.sources.Load(), come) }
		}
		d.Recorded = fmt.Sprintf("%s, at %s", next.Trigger, next.Time.Format(time.RFC3339Nano))
		w.err = w.file.Begin(d)
	}
	one := make([]capture.Packet, 1) // reused for each packet
	p := &one[0]
	var around wrapped
	for r.hasMore(&w) {
		r.ring.first(p, &around)
		a := w.given.At(int(p.Source))
		a.Captured++
		a.Bytes += uint64(len(p.Data))
		a.Lost += p.Dropped
		if w.err == nil {
			w.err = w.file.Write(one)
		}
		r.ring.drop()
		if r.needsRoom.Load() {
			signal(r.freed)
		}
	}
	r.draining.Store(false)
	signal(r.freed)
	return w
}

// complete ends the file of a recording and counts the packets in it.
func (r *Recorder) complete(w written) {
	for i := range w.given {
		w.given[i].Seen = w.given[i].Captured + w.given[i].Lost
	}
	own := w.given.Delivered(make(capture.Accounts, len(w.given)))
	if w.file != nil {
		taken, err := w.file.End(w.given)
		own, w.err = taken, cmp.Or(w.err, err)
		if w.err == nil {
			w.err = w.file.Enough()
		}
		w.file.Close() // for a file whose Begin failed
	}
	for i, a := range own {
		taken := r.taken.At(i)
		taken.Captured += a.Captured
		taken.Bytes += a.Bytes
		r.refused.At(i).NotTaken += a.NotTaken // packets that a limit refused are not in it
	}
	if w.err != nil {
		r.failure.CompareAndSwap(nil, &w.err)
		if !errors.Is(w.err, capture.ErrEnough) {
			return
		}
	}
	if r.options.Done != nil {
		w.Further, w.Packets = w.further.Load(), own.Total().Captured
		r.options.Done(w.Recording)
	}
}

// hasMore waits for the next packet of a recording or for its end, and flushes the file while it
// waits.
func (r *Recorder) hasMore(w *written) bool {
	for {
		end := w.end.Load() // read before head: finish sets end to head
		tail := r.ring.tail.Load()
		switch {
		case tail >= end: // > if Write has overwritten packets before write drained
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
