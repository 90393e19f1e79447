package file

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// settleInterval is the retry interval while packets of a period that has ended may still arrive.
const settleInterval = 50 * time.Millisecond

// write writes blocks to the current file and to the files after it. The queue calls it.
func (f *File) write(blocks []byte, ends []capture.BlockEnd) error {
	for f.err == nil && len(ends) > 0 {
		if f.current == nil {
			blocks, ends, f.err = f.openFirst(blocks, ends)
			continue
		}
		n, at := f.fitting(blocks, ends)
		if n > 0 && f.isSpent(int64(len(blocks))) {
			n, at = 0, firstStamp(ends)
		}
		if n == 0 {
			f.err = f.rotate(at)
			continue
		}
		first := beginOf(blocks, ends)
		f.written = ends[n-1].End
		bytes := f.written - first
		f.err = f.current.write(blocks[:bytes], ends[:n])
		if f.err == nil {
			f.err = f.keepHeader(blocks[:bytes], ends[:n])
		}
		blocks, ends = blocks[bytes:], ends[n:]
		if f.err == nil && f.isFull(f.written, f.current.packets) && f.rotation.Files == f.place.Number+1 {
			f.err = f.rotate(time.Now().Round(0))
		}
	}
	if f.err == nil && f.current != nil {
		f.err = f.reportDepartures()
	}
	return f.err
}

// openFirst opens the first file if there is a packet. It keeps the blocks before that packet for
// the beginning of the file, and returns the blocks that remain to be written.
func (f *File) openFirst(blocks []byte, ends []capture.BlockEnd) ([]byte, []capture.BlockEnd, error) {
	first := beginOf(blocks, ends)
	for i := range ends {
		if !isPacket(&ends[i]) {
			continue
		}
		before := blocks[:0]
		if i > 0 {
			f.written = ends[i-1].End
			before = blocks[:f.written-first]
		}
		if err := f.keepHeader(before, ends[:i]); err != nil {
			return nil, nil, err
		}
		header := f.header
		f.header = slices.Concat(header, f.before)
		at := time.Unix(0, ends[i].Time)
		if f.rotation.FromFirst {
			f.rotation.Origin = at.Truncate(time.Second)
		}
		err := f.beginFile(f.rotation.first(at))
		f.header, f.before = header, nil
		return blocks[len(before):], ends[i:], err
	}
	f.written = ends[len(ends)-1].End
	return nil, nil, f.keepHeader(blocks, ends)
}

// maxKept is how many bytes of blocks from capture files are kept to be repeated at the beginning
// of later files. It does not limit a live capture, which keeps only the descriptions of current
// interfaces.
const maxKept = 16 << 20

// keepHeader keeps the blocks with which later files of the series begin.
func (f *File) keepHeader(blocks []byte, ends []capture.BlockEnd) error {
	isLive := f.description.IsLive()
	if f.description.More == nil || f.rotation.isSingle() && !isLive {
		return nil
	}
	for block, end := range eachBlock(blocks, ends) {
		switch {
		case end.Source == headBlock:
			f.header = slices.Clone(block)
		case end.Source == headMore && isLive: // Bytes is the index of the described source
			f.describe(int(end.Bytes), block)
		case end.Source == headMore:
			f.header = append(f.header, block...)
		case !isPacket(end) && f.current == nil:
			f.before = append(f.before, block...)
		}
	}
	if !isLive && len(f.header)+len(f.before) > maxKept {
		return fmt.Errorf("the capture files have more than %d MiB besides packets, and every file of the series would repeat that", maxKept>>20)
	}
	return nil
}

// fitting returns how many of the blocks belong in the current file. If not all do, the next file
// begins at the time at.
func (f *File) fitting(blocks []byte, ends []capture.BlockEnd) (n int, at time.Time) {
	r, p := &f.rotation, f.current
	if r.isSingle() {
		return len(ends), at
	}
	until := int64(math.MaxInt64)
	if r.Period > 0 {
		until = r.until(f.place).UnixNano()
	}
	begins, count := beginOf(blocks, ends), p.packets
	for i := range ends {
		if isPacket(&ends[i]) {
			if stamp := ends[i].Time; stamp >= until || f.isFull(begins, count) {
				return i, time.Unix(0, stamp)
			}
			count++
		}
		begins = ends[i].End
	}
	return len(ends), at
}

// isFull reports whether the current file reaches its limit of bytes or packets by this many
// packets up to a position in the queue. A file that omits packets does not: see isSpent.
func (f *File) isFull(position int64, packets uint64) bool {
	if packets == 0 || f.current.stream.full {
		return false
	}
	r, size := &f.rotation, f.rotation.fileSize()
	return size > 0 && f.current.bytes(position) > size || r.Packets > 0 && packets >= r.Packets
}

// tend checks the current file, and begins the next one when it is due. The queue calls it.
func (f *File) tend(idle bool) error {
	if f.err == nil {
		f.err = f.finisher.failure()
	}
	if f.err != nil {
		return f.err
	}
	if f.current == nil {
		return nil // there was no packet yet
	}
	err := f.current.stream.tend(idle)
	if err == nil {
		err = f.reportDepartures()
	}
	if err != nil {
		f.err = f.current.stream.err // nil if it was renamed: it still takes the blocks in the queue
		return err
	}
	if !idle || f.rotation.Period == 0 || f.rotation.Stamped {
		return nil
	}
	if f.timer == nil { // the first file has begun
		f.wakeAt(f.rotation.until(f.place))
	}
	now, until := time.Now().Round(0), f.rotation.until(f.place)
	// All packets up to f.settled are written, because it was read before the queue became idle.
	settled := f.settled
	if f.settled = now; f.description.Settled != nil {
		f.settled = f.description.Settled()
	}
	switch {
	case now.Before(f.place.Period): // the wall clock was set back
		f.place = f.rotation.setBack(f.place, now)
		f.wakeAt(f.rotation.until(f.place))
	case now.Before(until):
	case settled.Before(until):
		f.wakeAt(now.Add(settleInterval))
	default:
		f.err = f.rotate(settled)
	}
	return f.err
}

// rotate ends the current file and begins the next one, unless Rotation.Files is reached. If there
// is no room for the next one, or for the end of the current one, it returns an error and the
// current file stays open, so that its closing statistics also count the packets that come later.
func (f *File) rotate(at time.Time) error {
	next := f.rotation.next(f.place, at)
	last := f.rotation.Files > 0 && next.Number >= f.rotation.Files
	err := f.current.stream.flush() // first, because the last frame takes room, too
	if err == nil && !last {
		err = f.grantNext()
	}
	if err != nil {
		return err
	}
	if err := f.endFile(f.accountsSoFar, f.current.stream.end); err != nil {
		return err
	}
	if last {
		return f.allWritten()
	}
	if err := f.beginFile(next); err != nil {
		return fmt.Errorf("begin file %d of the capture: %w", next.Number+1, err)
	}
	return nil
}

// beginFile begins the file of the series at a Place.
func (f *File) beginFile(place Place) error {
	p, err := f.openAt(place, place.Number > 0 || f.rotation.Keep > 0, f.keeper.release)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errors.Join(os.ErrClosed, p.file.Close())
	}
	f.current = p
	f.mu.Unlock()
	f.keeper.noteEmptied(p.file)
	if err := p.file.Begin(); err != nil {
		return err
	}
	f.start(p)
	f.wakeAt(f.rotation.until(f.place))
	return p.stream.tend(true) // writes the header
}

// start begins to write packets to a file.
func (f *File) start(p *part) {
	if p.began = f.place.Began; f.place.Number == 0 {
		p.began = f.description.Started
	}
	f.keeper.begin(p)
	f.departures.reports = nil
	header, described, renumbers := f.header, firstInterfaces(&f.description), false
	if f.place.Number > 0 && f.description.IsLive() && f.description.More != nil {
		header, described = f.nextHeader()
		_, renumbers = f.enc.(pcapngEncoder)
	}
	p.stream.begin(header, f.written, len(f.description.Sources), described)
	p.stream.renumbers = renumbers
	p.stream.reportEvery(f.options.StatisticsInterval, func() []byte { return f.statistics(f.onlyDescribed(f.accountsSoFar(p.stream.taken))) })
	if f.rotation.MaxBytes > 0 || f.rotation.MinFree > 0 {
		p.stream.grant = f.grant
	}
}

// wakeAt makes the queue call tend at a time, if files end by the clock.
func (f *File) wakeAt(t time.Time) {
	if f.rotation.Period == 0 || f.rotation.Stamped {
		return
	}
	f.stopTimer()
	f.timer = time.AfterFunc(time.Until(t), f.queue.wake)
}

func (f *File) stopTimer() {
	if f.timer != nil {
		f.timer.Stop()
	}
}

// endFile ends the current file with end, a method of its stream, and queues it for the finisher.
// account computes the file's accounts from the packets that it took. After an error a file stays
// open, unless it is the last.
func (f *File) endFile(account func(taken capture.Accounts) capture.Accounts, end func(trailer func() []byte) error) error {
	p := f.current
	if err := p.check(); p.isSpoiled() { // all its packets are lost
		f.mu.Lock()
		f.current = nil
		f.mu.Unlock()
		p.stream.taken = make(capture.Accounts, len(p.stream.taken))
		f.undoReports(-1) // all of this file
		f.keeper.finish(p, nil)
		return errors.Join(err, p.file.Close())
	}
	var own capture.Accounts
	due := f.departures.due(f.written) // sources whose statistics had no room
	err := end(func() []byte {
		f.undoReports(p.stream.size.Load())
		own = account(p.stream.taken)
		if departed, err := f.accountsOfGone(); err == nil && !p.last {
			for _, source := range due {
				*own.At(source) = departed.Of(source)
			}
		}
		own = f.onlyDescribed(own)
		return f.statistics(own)
	})
	if err != nil && !p.last {
		return err
	}
	f.departures.markReported(due)
	f.reported = f.reported.Plus(own)
	f.mu.Lock()
	f.current = nil
	f.taken = f.taken.Plus(p.stream.taken)
	f.size += p.stream.size.Load()
	f.mu.Unlock()
	if p.err != nil {
		err = p.err
	}
	f.finisher.add(p) // the file now belongs to the finisher
	return err
}

// statistics returns the closing statistics of the current file, whose accounts are own.
func (f *File) statistics(own capture.Accounts) []byte {
	return f.statisticsOf(own, func(source int) bool { return !f.departures.retired[source] })
}

// statisticsOf returns the statistics of the sources in the current file for which has returns
// true.
func (f *File) statisticsOf(own capture.Accounts, has func(source int) bool) []byte {
	s := &statistics{Accounts: own, start: f.place.Began, number: f.place.Number, has: has, interfaceOf: f.current.stream.interfaceOf}
	if f.place.Number == 0 {
		s.start = f.description.Started
	}
	if !f.rotation.isSingle() {
		s.session, s.since = f.reported.Plus(own), f.description.Started
	}
	return f.enc.trailer(nil, s)
}

// accountsSoFar returns the current file's accounts while the session runs.
func (f *File) accountsSoFar(taken capture.Accounts) capture.Accounts {
	return accountsSoFar(&f.description, f.reported, f.taken.Plus(taken))
}
