package capture

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A Format is a capture file format.
type Format int

const (
	PCAPNG Format = iota // draft-ietf-opsawg-pcapng: interfaces, queues, ids, losses and the account
	PCAP                 // the classic format, with nanoseconds: packets and nothing else
	JSON                 // a line for each packet, with what its headers say in place of its bytes
)

func (f Format) String() string {
	if f < 0 || int(f) >= len(formatNames) {
		return fmt.Sprintf("format %d", int(f))
	}
	return formatNames[f]
}

// ParseFormat reads a format's name: "pcapng", "pcap" or "json".
func ParseFormat(s string) (Format, error) {
	if at := slices.Index(formatNames[:], s); at >= 0 {
		return Format(at), nil
	}
	return 0, fmt.Errorf("file format %q: must be pcapng, pcap or json", s)
}

var formatNames = [...]string{"pcapng", "pcap", "json"}

// WriterOptions say how to write. The zero value of each field is its default.
type WriterOptions struct {
	Format      Format // PCAPNG
	Compression Compression
	Name        string // what errors call the file; "" = nothing
	Application string // name and version of the program that writes, for the file's header
	CommandLine string // for the comment in the file's header

	// Comments, if not nil, returns comments for the statistics of a source in pcapng files, each
	// of less than 64 KiB. A source is an index into Session.Sources. It is called by any
	// goroutine, until End returns.
	Comments func(source int) []string

	// MoreJSON, if not nil, appends keys to the line of a packet in JSON, each as `,"key":value`.
	// It is called by the goroutine of Write, once for each packet.
	MoreJSON func(line []byte, p *Packet) []byte

	// StatisticsInterval is how often, in about this time, pcapng files get statistics of the
	// packets that they have so far; 0 = at their end alone.
	StatisticsInterval time.Duration

	// Immediate lets each call of Write reach the file at once. Otherwise packets collect in a
	// buffer until it is full or Flush is called.
	Immediate bool

	// Refuse, if not nil, may refuse a file that was opened, before it is changed.
	Refuse func(os.FileInfo) error

	// Owners are the users, by their ids, to whom a regular file or a fifo that OpenFile finds may
	// belong; nil = anybody. NoLinks refuses a path with a symbolic link in it, and a regular file
	// with a second name. Both are for processes with more rights than those who may put files
	// where this one writes.
	Owners  []int
	NoLinks bool
}

// A Writer is an Output that makes a capture file. Each call of the file's Write gets whole blocks.
// Where the file can Seek and Truncate, it always ends with a whole block, and has room for the
// final accounts also when its disk is full: packets at its end are taken back for them, and count
// as lost. A Writer belongs to one goroutine; only Size may be called by any.
//
// Begin starts a goroutine that alone writes to the file until End, which joins it. While the file
// takes nothing, packets wait in memory: up to 1 GiB, or a quarter of the memory that is available
// if that is less. It is given back within about a second after it was needed, as long as Flush is
// called. When it is full, Write waits for the file. Packets of capture files that are complete
// have 16 MiB.
type Writer struct {
	options WriterOptions
	enc     encoder
	queue   *queue // nil before Begin
	stream  stream
	started time.Time // when the session began
	name    string    // what errors call the file
	notice  func(error)
}

// An encoder makes the blocks of one file format. Each format is one file, output_NAME.go, and a
// line in newEncoder.
type encoder interface {
	header(b []byte) []byte
	// packets adds packets to a chunk as long as there is room, and returns how many. An error is
	// that of the next packet, which the format cannot have.
	packets(c *chunk, packets []Packet) (int, error)
	trailer(b []byte, s *statistics) []byte
}

// A blockEncoder is an encoder that also keeps what capture files have besides packets.
type blockEncoder interface {
	// block adds a block that is no packet, or is false where the chunk has no room for it.
	block(c *chunk, b *capfile.Block) bool
	// notices are what was left out.
	notices() []error
}

// A lateEncoder is an encoder that adds something when all packets have come, whose chunk has
// room for that.
type lateEncoder interface{ finish(c *chunk) }

// statistics are what stands at the end of a file.
type statistics struct {
	Accounts           // of the packets in this file
	start    time.Time // of what is counted
	session  Accounts  // of the packets in all files of the session until now; nil = no comment
	since    time.Time // of what is counted in session
	number   int       // of this file, from 0
}

// comment says what the numbers about a source are of, where there are several files, or that they
// do not add up.
func (s *statistics) comment(source int) string {
	if s.session != nil {
		return fmt.Sprintf("file %d of a capture since %s; in all files until now: %s",
			s.number+1, s.since.UTC().Format(time.RFC3339), s.session[source].Equation())
	}
	if a := s.Accounts[source]; a.Unexplained != 0 {
		return a.Equation()
	}
	return ""
}

func newEncoder(d *Description, o *WriterOptions) encoder {
	switch o.Format {
	case PCAP:
		return newPCAPEncoder(d)
	case JSON:
		return newJSONEncoder(d, o)
	}
	if d.files != nil {
		return newCopyEncoder(d.files, o)
	}
	return newPCAPNGEncoder(d, o)
}

// maxOverhead is more than a packet's block has besides the packet's bytes: in pcapng a comment is
// the longest part.
const maxOverhead = 512

// NewWriter returns an Output that writes a capture file to out, which it does not close. Errors
// call the file by the name in the options.
func NewWriter(out io.Writer, o WriterOptions) *Writer {
	return &Writer{options: o, stream: stream{out: out, name: o.Name, frames: newFrames(o.Compression)}}
}

// Begin makes the file's header, which reaches the file after the first Flush.
func (w *Writer) Begin(d Description) error {
	w.started, w.name, w.notice = d.Started, w.options.Name, d.Options.notice
	w.enc = newEncoder(&d, &w.options)
	w.stream.begin(w.enc.header(nil), 0, len(d.Sources))
	w.stream.tellAt(w.options.StatisticsInterval, func() []byte {
		return w.enc.trailer(nil, &statistics{Accounts: d.lately(nil, w.stream.taken), start: w.started})
	})
	return w.beginQueue(&w.stream, w.options.Name, &d)
}

// beginQueue lets blocks be written to out. A notice says how many may wait where that is little
// because of something else than the machine.
func (w *Writer) beginQueue(out blockWriter, name string, d *Description) (err error) {
	wanted := maxQueue
	if d.files != nil && !d.files.live {
		wanted = fileQueue
	}
	available := machine.AvailableMemory()
	if w.queue, err = newQueue(out, wanted, func() uint64 { return machine.AvailableMemory().Bytes }); err != nil {
		return err
	}
	if most := w.queue.most(); most < wanted && !available.IsMachines() {
		d.Options.notice(fmt.Errorf("at most %d MiB of packets wait for %s, a quarter of the available memory, which is %v",
			most>>20, cmp.Or(name, "the output"), available))
	}
	if e, ok := w.enc.(blockEncoder); ok {
		d.files.onBlocks(func(b *capfile.Block) { w.block(e, b) })
	}
	return nil
}

// block adds a block of a capture file that is no packet. An error is known to Write.
func (w *Writer) block(e blockEncoder, b *capfile.Block) {
	for w.queue.failure() == nil && !e.block(w.queue.open, b) {
		if w.queue.next() != nil {
			return
		}
	}
}

// endQueue waits until the file has everything that was added, and says what the encoder has left
// out. It returns the error of the file.
func (w *Writer) endQueue() error {
	if e, ok := w.enc.(lateEncoder); ok && w.queue.failure() == nil {
		e.finish(w.queue.open)
	}
	err := w.queue.end()
	if e, ok := w.enc.(blockEncoder); ok {
		for _, notice := range e.notices() {
			w.notice(notice)
		}
	}
	return err
}

// Write adds packets. It keeps nothing of them and allocates nothing. After an error of the file
// has become known, every call returns that error.
func (w *Writer) Write(packets []Packet) error {
	if err := w.queue.failure(); err != nil {
		return err
	}
	for {
		n, err := w.enc.packets(w.queue.open, packets)
		if err != nil {
			return fmt.Errorf("write packets to %s: %w", cmp.Or(w.name, "the file"), err)
		}
		if packets = packets[n:]; len(packets) == 0 {
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

func (w *Writer) backlog() (added, written, limit int64) { return w.queue.backlog() }

// Size is how many bytes the file has taken.
func (w *Writer) Size() int64 { return w.stream.size.Load() }

// End waits until the file has everything that was added, and adds the final accounts, also after
// an error, if the file still takes them. It returns the accounts of the file, and the first error
// that there was.
func (w *Writer) End(final Accounts) (Accounts, error) {
	if w.queue == nil {
		return final.Delivered(make(Accounts, len(final))), nil
	}
	err := w.endQueue()
	last := w.stream.end(func() []byte {
		return w.enc.trailer(nil, &statistics{Accounts: final.Delivered(w.stream.taken), start: w.started})
	})
	if err == nil {
		err = last
	}
	return final.Delivered(w.stream.taken), err
}
