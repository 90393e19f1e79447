package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
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
// A Writer belongs to one goroutine; only Size may be called by any.
type Writer struct {
	out     io.Writer
	options WriterOptions
	enc     encoder
	buf     []byte
	queued  []queued // the packets in buf
	taken   Accounts // Captured and Bytes: what reached the file
	size    atomic.Int64
	err     error
}

// queued is where a packet's block ends in the buffer, and what the packet adds to the accounts.
type queued struct {
	end, bytes, source int
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
	return nil
}

// Write adds a packet. It keeps nothing of p and allocates nothing. After an error of the file,
// every call returns that error.
func (w *Writer) Write(p *Packet) error {
	if w.err != nil {
		return w.err
	}
	w.buf = w.enc.packet(w.buf, p)
	w.queued = append(w.queued, queued{end: len(w.buf), bytes: len(p.Data), source: p.Source})
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
	n, err := w.out.Write(w.buf)
	if err != nil {
		w.err = w.explain(err)
	}
	whole := 0
	for _, q := range w.queued {
		if q.end > n {
			break
		}
		whole = q.end
		a := &w.taken[q.source]
		a.Captured++
		a.Bytes += uint64(q.bytes)
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

// explain says what was tried in an error of the file.
func (w *Writer) explain(err error) error {
	name := w.options.Name
	if name == "" {
		return fmt.Errorf("write packets: %w", err)
	}
	if errors.Is(err, unix.EPIPE) {
		return xdp.Kind(unix.EPIPE, "%s: its reader has gone away", name)
	}
	if path := new(os.PathError); errors.As(err, &path) {
		err = path.Err // without the path in it, because the name is added below
	}
	return fmt.Errorf("write packets to %s: %w", name, err)
}

// cut takes the beginning of a block off the end of the file. If that fails, the error that led
// here is still the one to report.
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

// Size is how many bytes the file has taken.
func (w *Writer) Size() int64 { return w.size.Load() }

// End writes what is buffered and the final accounts, also after an error, if the file still takes
// it. It returns the accounts of the file, and the first error that there was.
func (w *Writer) End(final Accounts) (Accounts, error) {
	err := w.Flush()
	w.err = nil
	own := final.delivered(w.taken)
	w.buf = w.enc.trailer(w.buf, own)
	if last := w.Flush(); err == nil {
		err = last
	}
	if w.err == nil {
		w.err = os.ErrClosed
	}
	return own, err
}
