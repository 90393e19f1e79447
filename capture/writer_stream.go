package capture

import (
	"io"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A stream is what a file has got so far: whole blocks where that can be helped, and an account of
// the packets in them. It belongs to one goroutine at a time; only size may be read by any.
type stream struct {
	out    io.Writer
	name   string       // what errors call the file
	header int64        // bytes of the file's header
	size   atomic.Int64 // bytes that the file has taken
	torn   bool         // the file ends with a part of a block, which could not be taken off again
	recent recent
	taken  Accounts // Captured and Bytes: what reached the file
	err    error    // the file's, after which nothing is written

	// check finds what else has become of the file; nil = nothing.
	check func() error
}

// write adds blocks, and counts the packets of those that the file took. If it took only part of a
// block, that part is removed again where the file can Seek and Truncate.
func (s *stream) write(blocks []byte, packets []placed) error {
	if s.err != nil || len(blocks) == 0 {
		return s.err
	}
	start := s.size.Load()
	n, err := s.out.Write(blocks)
	if err == nil && n < len(blocks) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = outfile.WriteError(s.name, err)
	}
	end := start + int64(n)
	s.size.Store(end)
	whole := start
	switch {
	case n == len(blocks):
		whole = end
	case end >= s.header:
		whole = max(start, s.header)
	}
	arrived := 0
	for arrived < len(packets) && packets[arrived].end <= end {
		p := &packets[arrived]
		whole = max(whole, p.end)
		s.taken[p.source].Captured++
		s.taken[p.source].Bytes += uint64(p.bytes)
		arrived++
	}
	s.recent.add(packets[:arrived])
	s.cut(whole)
	return s.err
}

// tend looks what has become of the file.
func (s *stream) tend() error {
	if s.check == nil {
		return nil
	}
	return s.check()
}

// cut takes off what is behind the first size bytes of the file, and tells whether it could.
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

// takeBack removes packets from the end of the file until so many bytes have been freed, and no
// longer counts them as taken. It returns false if nothing could be removed.
func (s *stream) takeBack(room int64) bool {
	end := s.size.Load()
	size, last := s.recent.last(end, room)
	if size == end || !s.cut(size) {
		return false
	}
	for _, p := range last {
		s.taken[p.source].Captured--
		s.taken[p.source].Bytes -= uint64(p.bytes)
	}
	s.recent.forget(len(last))
	return true
}
