// Package capfile reads capture files: pcapng of either byte order and any resolution of time, and
// classic pcap of either byte order with micro- or nanoseconds, also compressed by gzip or zstd.
// What a file is, its first bytes tell, not its name.
//
// A [File] hands out one block after the other. A [Merge] brings the packets of several files into
// one order by time. Both read as they go, in memory that depends neither on the length of the
// files nor on what a damaged file says of lengths.
package capfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Kinds of errors of a file, not a part of their text. What stands before the place of the error
// has been handed out.
var (
	ErrCut     = errors.New("the file ends within a block") // as after a capture that was killed
	ErrDamaged = errors.New("the file is damaged")
	ErrUnknown = errors.New("not a capture file")
	ErrMemory  = errors.New("decompression takes too much memory") // of all files together
)

// A Kind says what a Block is.
type Kind int

const (
	Packet     Kind = iota
	Section         // begins a part of a pcapng file, with interfaces of its own
	Described       // an interface
	Statistics      // of an interface
	Other           // any other block of a pcapng file
)

// A Block is what stands next in a file. Of the parts besides Kind, File and Raw those are set that
// the kind has.
type Block struct {
	Kind Kind
	File *File
	Raw  pcapng.Block // as it stands in the file; Raw.Raw is nil in a pcap file

	Interface  *Interface        // of a Packet, Described and Statistics; nil for statistics of an unknown one
	Packet     pcapng.Packet     // Time is in ns since the Unix epoch; Data is valid until the file's next block
	Time       int64             // of a Packet: Packet.Time, also before 1970
	Untimed    bool              // a packet without a time, for which Time is 0
	Statistics pcapng.Statistics // times are in ns since the Unix epoch
	Known      pcapng.Counters   // of Statistics

	order int64
}

// An Interface is where packets of a file come from.
type Interface struct {
	File     *File
	Index    int    // in its section
	Number   int    // among all interfaces of a Merge, from 0 on
	Name     string // at most 256 bytes of it; "" = the file does not say
	LinkType uint16
	SnapLen  uint32 // 0 = no limit
	clock    pcapng.Clock
}

// Order is what packets are merged by: Time, or that of the packet before one that has none.
func (b *Block) Order() int64 { return b.order }

// Stamp is a time in the units of the interface.
func (i *Interface) Stamp(ns int64) uint64 { return i.clock.Stamp(ns) }

// A Format is how a capture file is written.
type Format int

const (
	PCAPNG Format = iota
	PCAP
)

// A File is a capture file that is being read. It belongs to one goroutine.
type File struct {
	Name   string // what errors call it
	Format Format
	Place  int // among the files of a Merge

	in     *window
	decode io.Closer // what decompresses; nil = nothing
	next   func() error
	ready  func() bool // the next block is in memory
	block  Block

	first      pcapng.Block // the first section
	big        bool
	interfaces []*Interface // of the section
	described  int          // interfaces in all sections
	packets    uint64
	last       int64 // time of the packet before
	classic    classic
}

// Options say how to read. The zero value is ready to use.
type Options struct {
	// BeforeRead, if not nil, is called before the input is read, which may wait for it. The input
	// may then return no bytes and no error now and then while it waits. An error ends the reading.
	BeforeRead func() error

	// Memory is shared with the other files that are open at the same time; nil = there are none.
	Memory *Memory
}

// New begins to read the file of a name, which it uses in errors alone.
func New(in io.Reader, name string, o Options) (*File, error) {
	f := &File{Name: name, in: &window{in: in, before: o.BeforeRead}}
	f.block.File = f
	if err := f.decompress(cmp.Or(o.Memory, new(Memory))); err != nil {
		return nil, err
	}
	magic, err := f.in.peek(4)
	switch {
	case len(magic) == 0 && errors.Is(err, io.EOF):
		err = xdp.Kind(ErrUnknown, "%s is empty", name)
	case len(magic) < 4:
		err = f.ends(err, len(magic))
	case pcapng.IsSection(magic):
		err = f.openPCAPNG()
	case f.classic.recognise(magic):
		err = f.openPCAP()
	default:
		err = xdp.Kind(ErrUnknown, "%s is neither pcapng nor pcap, but begins with the bytes % x", name, magic)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close gives back what decompression holds. It does not close the input.
func (f *File) Close() {
	if f.decode != nil {
		f.decode.Close()
		f.decode = nil
	}
}

// Packets is how many packets were handed out.
func (f *File) Packets() uint64 { return f.packets }

// FirstSection is the section header that a pcapng file begins with.
func (f *File) FirstSection() pcapng.Block { return f.first }

// Next returns the next block, which is valid until the call after it. The error is io.EOF at the
// end, or matches one of the kinds of this package.
func (f *File) Next() (*Block, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return &f.block, nil
}

// IsReady tells whether Next will neither read nor move what it has handed out before.
func (f *File) IsReady() bool { return f.ready() }

// ends explains why the input has only so many bytes of a block.
func (f *File) ends(err error, have int) error {
	switch {
	case errors.Is(err, io.EOF) && have == 0:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return xdp.Kind(ErrCut, "%s is cut off after %s, within the block at byte %d%s",
			f.Name, packets(f.packets), f.in.offset, f.unpacked())
	}
	return fmt.Errorf("read %s after %s, at byte %d%s: %w", f.Name, packets(f.packets), f.in.offset, f.unpacked(), err)
}

// damaged is the error for a block that cannot be right.
func (f *File) damaged(why error) error {
	return xdp.Kind(ErrDamaged, "%s is damaged after %s, at byte %d%s: %w",
		f.Name, packets(f.packets), f.in.offset, f.unpacked(), why)
}

func (f *File) unpacked() string {
	if f.decode == nil {
		return ""
	}
	return " of what is unpacked"
}

func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return fmt.Sprintf("%d packets", n)
}
