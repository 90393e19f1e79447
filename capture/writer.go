package capture

import (
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/machine"
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

	// Immediate lets each call of Write reach the file at once. Otherwise packets collect in a
	// buffer until it is full or Flush is called.
	Immediate bool
}

// A Writer is an Output that makes a capture file. Each call of the file's Write gets whole blocks.
// Where the file can Seek and Truncate, it always ends with a whole block, and has room for the
// final accounts also when its disk is full: packets at its end are taken back for them, and count
// as lost. A Writer belongs to one goroutine; only Size may be called by any.
//
// Begin starts a goroutine that alone writes to the file until End, which joins it. While the file
// takes nothing, packets wait in memory: up to 256 MiB, or a quarter of the memory that is
// available at Begin if that is less. It is given back within about a second after it was needed,
// as long as Flush is called. When it is full, Write waits for the file.
type Writer struct {
	options WriterOptions
	enc     encoder
	queue   *queue // nil before Begin
	stream  stream
}

// An encoder makes the blocks of one file format. Each format is one file, output_NAME.go, and a
// line in newEncoder.
type encoder interface {
	header(b []byte) []byte
	// packets adds packets to a chunk as long as there is room, and returns how many.
	packets(c *chunk, packets []Packet) int
	trailer(b []byte, accounts Accounts) []byte
}

func newEncoder(d *Description, o *WriterOptions) encoder {
	if o.Format == PCAP {
		return newPCAPEncoder(d)
	}
	return newPCAPNGEncoder(d, o)
}

// maxOverhead is more than a packet's block has besides the packet's bytes: in pcapng a comment is
// the longest part.
const maxOverhead = 512

// NewWriter returns an Output that writes a capture file to out, which it does not close. Errors
// call the file by the name in the options.
func NewWriter(out io.Writer, o WriterOptions) *Writer {
	return &Writer{options: o, stream: stream{out: out, name: o.Name}}
}

// Begin makes the file's header, which reaches the file after the first Flush.
func (w *Writer) Begin(d Description) (err error) {
	w.enc = newEncoder(&d, &w.options)
	w.stream.taken = make(Accounts, len(d.Sources))
	header := w.enc.header(nil)
	w.stream.header = int64(len(header))
	w.stream.recent.before = w.stream.header
	if w.queue, err = newQueue(&w.stream, queueLimit(machine.AvailableMemory())); err != nil {
		return err
	}
	w.queue.open.blocks = append(w.queue.open.blocks, header...)
	return nil
}

// Write adds packets. It keeps nothing of them and allocates nothing. After an error of the file
// has become known, every call returns that error.
func (w *Writer) Write(packets []Packet) error {
	if err := w.queue.failure(); err != nil {
		return err
	}
	for {
		packets = packets[w.enc.packets(w.queue.open, packets):]
		if len(packets) == 0 {
			break
		}
		if err := w.queue.next(); err != nil {
			return err
		}
	}
	if w.options.Immediate {
		return w.queue.hand()
	}
	return nil
}

// Flush lets what was added be written to the file, and does not wait for that. It returns an error
// of the file that has become known.
func (w *Writer) Flush() error {
	if err := w.queue.failure(); err != nil {
		return err
	}
	w.queue.ask()
	return w.queue.hand()
}

// Size is how many bytes the file has taken.
func (w *Writer) Size() int64 { return w.stream.size.Load() }

// End waits until the file has everything that was added, and adds the final accounts, also after
// an error, if the file still takes them. It returns the accounts of the file, and the first error
// that there was.
func (w *Writer) End(final Accounts) (Accounts, error) {
	if w.queue == nil {
		return final.Delivered(make(Accounts, len(final))), nil
	}
	err := w.queue.end()
	s := &w.stream
	own := final.Delivered(s.taken)
	// A reader could not make sense of what stands behind a part of a block, or without the header.
	for !s.torn && s.size.Load() >= s.header {
		s.err = nil
		trailer := w.enc.trailer(nil, own)
		last := s.write(trailer, nil)
		if err == nil {
			err = last
		}
		if !outfile.IsFull(last) || !s.takeBack(int64(len(trailer))) {
			break
		}
		own = final.Delivered(s.taken)
	}
	return own, err
}
