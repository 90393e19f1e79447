package file

import (
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A stream writes whole blocks to a file, as far as possible, and counts the packets in them. It
// belongs to one goroutine at a time; any goroutine may read size and takenNow.
type stream struct {
	out    io.Writer
	name   string           // the file's name in errors
	frames *frames          // nil without compression
	unsent []byte           // the file's header, until it is written; then nil
	header int64            // bytes of the header in the file
	start  int64            // position in the queue minus offset in the file; without compression
	size   atomic.Int64     // bytes written to the file
	torn   bool             // the file ends with a partial block that could not be removed
	recent recent           // the last blocks in the file, which takeBack may remove
	mu     sync.Mutex       // guards taken
	taken  capture.Accounts // Captured and Bytes of the packets in the file
	err    error            // the file's first error, which ends writing

	numbering // of the interfaces that the file describes: numbers, number, undescribe

	// statistics returns blocks with the statistics so far. They are written once per interval; 0 =
	// never.
	statistics func() []byte
	interval   time.Duration
	reportedAt time.Time // when they were last written

	// check, if not nil, returns an error for problems of the file that Write does not report.
	check func() error
	// grant, if not nil, returns how many of these bytes may be written now. The blocks that do not
	// fit are omitted, and so are all later ones, because they may be packets of a source whose
	// description was omitted. An error ends the session once the granted bytes are written.
	grant func(bytes int64) (int64, error)
	full  bool // blocks were omitted
}

// begin starts the stream of a new file. first is the position in the queue of the first block
// after the header. described are the sources whose interfaces the header describes, in the order
// of their numbers, in a live capture to which interfaces may be added later; otherwise nil.
func (s *stream) begin(header []byte, first int64, sources int, described []int) {
	s.unsent = header
	s.start = first - int64(len(header))
	s.numbering = newNumbering(described)
	s.mu.Lock()
	s.taken = make(capture.Accounts, sources)
	s.mu.Unlock()
	if s.frames != nil {
		s.frames.begin()
		if header == nil {
			s.unsent = []byte{} // a compressed file has a beginning even without blocks
		}
	}
}

// takenNow returns the accounts of the packets in the file so far; nil before begin. Any goroutine
// may call it.
func (s *stream) takenNow() capture.Accounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken)
}

// reportEvery makes the stream also write these statistics once per interval; 0 = never.
func (s *stream) reportEvery(interval time.Duration, statistics func() []byte) {
	s.interval, s.statistics, s.reportedAt = interval, statistics, time.Now()
}

// write adds blocks, and counts the packets that the file took. If the file took only part of a
// block, that part is removed if the file can Seek and Truncate. With compression, blocks are kept
// until they fill a frame.
func (s *stream) write(blocks []byte, ends []capture.BlockEnd) error {
	if s.unsent != nil {
		s.writeHeader()
	}
	if s.err != nil || len(blocks) == 0 {
		return s.err
	}
	if s.numbers != nil {
		s.number(blocks, ends)
	}
	if s.frames == nil {
		return s.put(blocks, ends)
	}
	s.frames.add(blocks, ends)
	if s.frames.isFull() {
		return s.seal()
	}
	return nil
}

// writeHeader writes the header. With compression it is a frame of its own, because a reader needs
// it before all other blocks.
func (s *stream) writeHeader() {
	header := s.unsent
	s.unsent = nil
	if s.frames != nil {
		s.frames.add(header, nil)
		header, _ = s.frames.seal()
	}
	s.header = int64(len(header))
	s.recent.before = s.header
	s.put(header, nil)
}

// seal writes the kept blocks as a frame.
func (s *stream) seal() error {
	if s.frames == nil || s.err != nil || len(s.frames.blocks) == 0 {
		return s.err
	}
	packed, ends := s.frames.seal()
	// A frame's packets are in the file only when the whole frame is.
	for i := range ends {
		ends[i].End = s.start + s.size.Load() + int64(len(packed))
	}
	return s.put(packed, ends)
}

// put writes blocks, or a frame, as far as grant and the file allow. It counts the packets that are
// whole in the file, and removes a partial block at its end.
func (s *stream) put(blocks []byte, ends []capture.BlockEnd) error {
	size, given := s.size.Load(), ends
	blocks, ends, ended := s.granted(blocks, ends)
	n, err := s.out.Write(blocks)
	if err == nil && n < len(blocks) {
		err = io.ErrShortWrite
	}
	s.err = ended
	if err != nil {
		s.err = outfile.WriteError(s.name, err)
	}
	end := size + int64(n)
	s.size.Store(end)
	arrived, whole := len(ends), end // the number of whole blocks, and the end of the last one
	if n < len(blocks) {
		arrived, whole = s.endingBy(end, ends), size
		if arrived > 0 {
			whole = ends[arrived-1].End - s.start
		}
	}
	s.mu.Lock()
	count(&s.taken, ends[:arrived])
	s.mu.Unlock()
	s.undescribe(given[arrived:])
	s.recent.add(ends[:arrived], s.start)
	s.cut(whole)
	return s.err
}

// endingBy returns how many blocks end at or before a position in the file.
func (s *stream) endingBy(position int64, ends []capture.BlockEnd) int {
	return sort.Search(len(ends), func(i int) bool { return ends[i].End-s.start > position })
}

// count counts packets that a file took. It is fast because consecutive packets are mostly of one
// source. Blocks with the same Source are all packets or all not: see isPacket.
func count(taken *capture.Accounts, ends []capture.BlockEnd) {
	for len(ends) > 0 {
		first, n, bytes := &ends[0], 0, uint64(0)
		for n < len(ends) && ends[n].Source == first.Source {
			bytes += uint64(ends[n].Bytes)
			n++
		}
		if isPacket(first) {
			a := taken.At(int(first.Source))
			a.Captured += uint64(n)
			a.Bytes += bytes
		}
		ends = ends[n:]
	}
}

// granted returns the first of these blocks, as many as grant permits. An error ends the session.
func (s *stream) granted(blocks []byte, ends []capture.BlockEnd) ([]byte, []capture.BlockEnd, error) {
	if s.grant == nil || len(ends) == 0 {
		return blocks, ends, nil
	}
	if s.full {
		return nil, nil, nil
	}
	room, ended := s.grant(int64(len(blocks)))
	if room >= int64(len(blocks)) {
		return blocks, ends, ended
	}
	s.full = true
	size := s.size.Load()
	n := s.endingBy(size+room, ends)
	if n == 0 {
		return nil, nil, ended
	}
	return blocks[:ends[n-1].End-s.start-size], ends[:n], ended
}

// tend implements blockWriter, and does not depend on whether the queue is idle. It writes the
// blocks kept for a frame, writes the statistics if they are due, and checks the file.
func (s *stream) tend(_ bool) error {
	if s.unsent != nil {
		s.writeHeader()
	}
	if err := s.seal(); err != nil {
		return err
	}
	if s.interval > 0 && time.Since(s.reportedAt) >= s.interval {
		s.reportedAt = time.Now()
		if err := s.insert(s.statistics()); err != nil {
			return err
		}
	}
	if s.check == nil {
		return nil
	}
	return s.check()
}

// insert adds blocks that do not come from the queue, unless grant leaves no room for them. A limit
// that grant reports then ends the session at the next packet.
func (s *stream) insert(blocks []byte) error {
	if len(blocks) == 0 || s.full && s.size.Load() > s.header {
		return nil // the format has no statistics, or the file ends before the next packet: see isSpent
	}
	if s.grant != nil {
		// If the file is full with only its header, grant makes room for another file: see isSpent.
		if room, _ := s.grant(int64(len(blocks))); s.full || room < int64(len(blocks)) {
			return nil
		}
	}
	if s.frames != nil {
		s.frames.add(blocks, nil)
		blocks, _ = s.frames.seal()
	}
	s.start -= int64(len(blocks)) // because later blocks of the queue come after them in the file
	return s.put(blocks, nil)
}

// flush writes the header, if the file does not have it yet, and with compression also the blocks
// that are kept for the next frame.
func (s *stream) flush() error {
	s.write(nil, nil)
	return s.seal()
}

// end adds the trailer if everything before it was written and there is room for it. Otherwise it
// returns an error.
func (s *stream) end(trailer func() []byte) error {
	if err := s.flush(); err != nil {
		return err
	}
	if last := s.last(trailer); len(last) > 0 {
		return s.put(last, nil)
	}
	return nil
}

// last returns the last bytes of the file: the trailer or, with compression, a frame of it.
func (s *stream) last(trailer func() []byte) []byte {
	if s.frames != nil {
		return s.frames.end(nil, trailer())
	}
	return trailer()
}

// forceEnd adds the trailer, even after an error or beyond grant. If the disk is full, it removes
// packets from the end of the file to make room, and calls trailer again, because s.taken has
// changed. It returns the first error.
func (s *stream) forceEnd(trailer func() []byte) error {
	err := s.flush()
	s.grant = nil
	// After a partial block, or without the whole header, a reader could not parse the trailer.
	for !s.torn && s.size.Load() >= s.header {
		s.err = nil
		last := s.last(trailer)
		if len(last) == 0 {
			break
		}
		failed := s.put(last, nil)
		if err == nil {
			err = failed
		}
		isDone := !outfile.IsFull(failed) // nil, or an error that room does not mend
		if isDone || !s.takeBack(int64(len(last))) {
			break
		}
	}
	return err
}

// cut truncates the file to size bytes. It returns false if that is not possible.
func (s *stream) cut(size int64) bool {
	excess := s.size.Load() - size
	if excess == 0 {
		return true
	}
	f, ok := s.out.(interface {
		io.Seeker
		Truncate(size int64) error
	})
	if ok {
		end, err := f.Seek(-excess, io.SeekCurrent)
		ok = err == nil && f.Truncate(end) == nil
	}
	s.torn = !ok
	if ok {
		s.size.Store(size)
	}
	return ok
}

// takeBack removes packets from the end of the file until room bytes are free, and no longer counts
// them as taken. It returns false if no packet could be removed.
func (s *stream) takeBack(room int64) bool {
	end := s.size.Load()
	size, last := s.recent.last(end, room)
	if size == end || !s.cut(size) {
		return false
	}
	s.mu.Lock()
	for _, p := range last {
		if isPacket(&p) {
			s.taken[p.Source].Captured--
			s.taken[p.Source].Bytes -= uint64(p.Bytes)
		}
	}
	s.mu.Unlock()
	s.undescribe(last)
	s.recent.dropLast(len(last))
	return true
}
