package capture

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// A Format is a capture file format.
type Format int

const (
	PCAPNG Format = iota // draft-ietf-opsawg-pcapng: interfaces, queues, ids, losses and the account
	PCAP                 // the classic format, with nanoseconds: packets and nothing else
)

// ParseFormat reads a format's name: "pcapng" or "pcap".
func ParseFormat(s string) (Format, error) {
	switch s {
	case "pcapng":
		return PCAPNG, nil
	case "pcap":
		return PCAP, nil
	}
	return 0, fmt.Errorf("file format %q: must be pcapng or pcap", s)
}

// WriterOptions say how to write. The zero value of each field is its default.
type WriterOptions struct {
	Format      Format // PCAPNG
	Application string // name and version of the program that writes, for the file's header
	CommandLine string // for the comment in the file's header

	// Immediate writes each packet to the output at once. Otherwise packets collect in a buffer until
	// it is full or Flush is called.
	Immediate bool
}

// A Writer writes a session's packets to a capture file. Whatever reaches the output is whole blocks,
// each call of its Write some of them. A Writer belongs to one goroutine; only Size may be called by any.
type Writer struct {
	out     io.Writer
	options WriterOptions
	enc     encoder
	buf     []byte
	queued  []queued // the packets in buf
	written []Counters
	size    atomic.Int64
	err     error
}

// queued is where a packet in the buffer ends, and what it counts for.
type queued struct {
	end, captured, source int
}

// An encoder appends the blocks of one file format to a buffer.
type encoder interface {
	header(b []byte) []byte
	packet(b []byte, p *Packet) []byte
	trailer(b []byte, s Stats) []byte
}

const writeSize = 256 << 10

// NewWriter begins a file of the session's packets with its header, which reaches out with the first Flush.
func NewWriter(out io.Writer, s *Session, o WriterOptions) *Writer {
	return newWriter(out, newEncoder(s.describe(), o), o, len(s.Interfaces()))
}

func newWriter(out io.Writer, enc encoder, o WriterOptions, sources int) *Writer {
	w := &Writer{
		out:     out,
		options: o,
		enc:     enc,
		buf:     make([]byte, 0, writeSize+2*MaxSnapLen),
		written: make([]Counters, sources),
	}
	w.buf = enc.header(w.buf)
	return w
}

func newEncoder(d description, o WriterOptions) encoder {
	if o.Format == PCAP {
		return newClassic(d)
	}
	return newNextGeneration(d, o)
}

// Write adds a packet. It keeps nothing of p and allocates nothing. After an error of the output, every
// call returns that error.
func (w *Writer) Write(p *Packet) error {
	if w.err != nil {
		return w.err
	}
	w.buf = w.enc.packet(w.buf, p)
	w.queued = append(w.queued, queued{end: len(w.buf), captured: len(p.Data), source: p.Interface})
	if w.options.Immediate || len(w.buf) >= writeSize {
		return w.Flush()
	}
	return nil
}

// Flush hands what is buffered to the output. Of a write that was cut short, what is not a whole block
// is removed again, where the output is a file or can Seek and Truncate like one.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	n, err := w.out.Write(w.buf)
	if err != nil {
		w.err = fmt.Errorf("write packets: %w", err)
	}
	whole := 0
	for _, q := range w.queued {
		if q.end > n {
			break
		}
		whole = q.end
		c := &w.written[q.source]
		c.Captured++
		c.Bytes += uint64(q.captured)
	}
	if n == len(w.buf) {
		whole = n
	}
	w.size.Add(int64(whole))
	if whole < n {
		w.cut(int64(n - whole))
	}
	w.buf, w.queued = w.buf[:0], w.queued[:0]
	return w.err
}

// cut takes the beginning of a block off the end of the file. There is nobody to tell if that
// fails: the error that led here is the one that counts.
func (w *Writer) cut(excess int64) {
	f, ok := w.out.(interface {
		io.Seeker
		Truncate(size int64) error
	})
	if !ok {
		return
	}
	if end, err := f.Seek(-excess, io.SeekCurrent); err == nil {
		f.Truncate(end)
	}
}

// Size is how many bytes the output has taken.
func (w *Writer) Size() int64 { return w.size.Load() }

// Account returns the session's final counters with what did not reach the output as lost instead
// of captured.
func (w *Writer) Account(s Stats) Stats {
	counters := make([]Counters, len(s.Interfaces))
	for i, c := range s.Interfaces {
		c.Lost += c.Captured - w.written[i].Captured
		c.Captured, c.Bytes = w.written[i].Captured, w.written[i].Bytes
		counters[i] = c
	}
	return total(counters)
}

// Close writes what is buffered and the session's final counters, also after an error, should the output
// take it. It returns the first error of the output and does not close it.
func (w *Writer) Close(s Stats) error {
	err := w.Flush()
	w.err = nil
	w.buf = w.enc.trailer(w.buf, w.Account(s))
	if last := w.Flush(); err == nil {
		err = last
	}
	if w.err == nil {
		w.err = os.ErrClosed
	}
	return err
}
