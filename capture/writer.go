package capture

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/internal/outfile"
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
	Name        string // what errors call the file; "" = nothing
	Application string // name and version of the program that writes, for the file's header
	CommandLine string // for the comment in the file's header

	// Immediate writes each packet to the file at once. Otherwise packets collect in a buffer until
	// it is full or Flush is called.
	Immediate bool
}

// A Writer is an Output that makes a capture file. Each call of the file's Write gets whole blocks.
// Where the file can Seek and Truncate, it always ends with a whole block, and has room for the
// final accounts also when its disk is full: packets at its end are taken back for them, and count
// as lost. A Writer belongs to one goroutine; only Size may be called by any.
type Writer struct {
	out     io.Writer
	options WriterOptions
	enc     encoder
	buf     []byte
	header  int64        // bytes of the file's header
	size    atomic.Int64 // bytes that the file has taken
	torn    bool         // the file ends with a part of a block, which could not be taken off again
	packets recent
	taken   Accounts // Captured and Bytes: what reached the file
	err     error
}

// An encoder appends the blocks of one file format to a buffer. Each format is one file,
// output_NAME.go, and a line in newEncoder.
type encoder interface {
	header(b []byte) []byte
	packet(b []byte, p *Packet) []byte
	trailer(b []byte, accounts Accounts) []byte
}

func newEncoder(d *Description, o *WriterOptions) encoder {
	if o.Format == PCAP {
		return newPCAPEncoder(d)
	}
	return newPCAPNGEncoder(d, o)
}

// writeSize is how many bytes are collected for one write, at least.
const writeSize = 256 << 10

// NewWriter returns an Output that writes a capture file to out, which it does not close. Errors
// call the file by the name in the options.
func NewWriter(out io.Writer, o WriterOptions) *Writer {
	return &Writer{out: out, options: o, buf: make([]byte, 0, writeSize+2*MaxSnapLen)}
}

// Begin makes the file's header, which reaches the file with the first Flush.
func (w *Writer) Begin(d Description) error {
	w.taken = make(Accounts, len(d.Sources))
	w.enc = newEncoder(&d, &w.options)
	w.buf = w.enc.header(w.buf)
	w.header = int64(len(w.buf))
	w.packets.before = w.header
	return nil
}

// Write adds a packet. It keeps nothing of p and allocates nothing. After an error of the file,
// every call returns that error.
func (w *Writer) Write(p *Packet) error {
	if w.err != nil {
		return w.err
	}
	w.buf = w.enc.packet(w.buf, p)
	w.packets.add(placed{end: w.size.Load() + int64(len(w.buf)), bytes: uint32(len(p.Data)), source: uint32(p.Source)})
	if w.options.Immediate || len(w.buf) >= writeSize {
		return w.Flush()
	}
	return nil
}

// Flush hands what is buffered to the file. If the file took only part of a block, that part is
// removed again where the file can Seek and Truncate.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	start := w.size.Load()
	n, err := w.out.Write(w.buf)
	if err != nil {
		w.err = outfile.WriteError(w.options.Name, err)
	}
	end := start + int64(n)
	w.size.Store(end)
	whole := start
	switch {
	case n == len(w.buf):
		whole = end
	case end >= w.header:
		whole = max(start, w.header)
	}
	for _, p := range w.packets.arrived(end) {
		whole = max(whole, p.end)
		w.taken[p.source].Captured++
		w.taken[p.source].Bytes += uint64(p.bytes)
	}
	w.cut(whole)
	w.buf = w.buf[:0]
	return w.err
}

// cut takes off what is behind the first size bytes of the file, and tells whether it could.
func (w *Writer) cut(size int64) bool {
	excess := w.size.Load() - size
	if excess == 0 {
		return true
	}
	f, ok := w.out.(interface {
		io.Seeker
		Truncate(size int64) error
	})
	if ok {
		end, err := f.Seek(-excess, io.SeekCurrent)
		ok = err == nil && f.Truncate(end) == nil
	}
	w.torn = !ok
	if ok {
		w.size.Store(size)
	}
	return ok
}

// Size is how many bytes the file has taken.
func (w *Writer) Size() int64 { return w.size.Load() }

// End writes what is buffered and the final accounts, also after an error, if the file still takes
// it. It returns the accounts of the file, and the first error that there was.
func (w *Writer) End(final Accounts) (Accounts, error) {
	err := w.Flush()
	own := final.Delivered(w.taken)
	// A reader could not make sense of what stands behind a part of a block, or without the header.
	for !w.torn && w.size.Load() >= w.header {
		w.err = nil
		w.buf = w.enc.trailer(w.buf[:0], own)
		room := int64(len(w.buf))
		last := w.Flush()
		if err == nil {
			err = last
		}
		if !outfile.IsFull(last) || !w.takeBack(room) {
			break
		}
		own = final.Delivered(w.taken)
	}
	if w.err == nil {
		w.err = os.ErrClosed
	}
	return own, err
}

// takeBack removes packets from the end of the file until so many bytes have been freed, and no
// longer counts them as taken. It returns false if nothing could be removed.
func (w *Writer) takeBack(room int64) bool {
	end := w.size.Load()
	size, last := w.packets.last(end, room)
	if size == end || !w.cut(size) {
		return false
	}
	for _, p := range last {
		w.taken[p.source].Captured--
		w.taken[p.source].Bytes -= uint64(p.bytes)
	}
	w.packets.forget(len(last))
	return true
}
