// Package capfile reads capture files, also compressed with gzip or zstd: pcapng of either byte
// order and any resolution of time, and classic pcap of either byte order with micro- or
// nanoseconds, and its variants. The format is detected from a file's first bytes, not from its
// name.
//
// A [File] returns one block after the other. A [Merge] orders the packets of several files by
// time. Both read incrementally. Their memory depends neither on the length of the files nor on the
// lengths that a damaged file claims.
package capfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// Kinds of errors of a file, for errors.Is. Everything before the position of the error has been
// returned.
var (
	errCut     = errors.New("the file ends within a block") // for example, the capture was killed
	errDamaged = errors.New("the file is damaged")
	errUnknown = errors.New("not a capture file")
	ErrMemory  = errors.New("decompression takes too much memory") // of all files together
)

// A Kind is the kind of a Block.
type Kind int

const (
	Packet     Kind = iota
	Section         // begins a part of a pcapng file, with interfaces of its own
	Described       // an interface
	Statistics      // of an interface
	Other           // any other block of a pcapng file
)

// A Block is the next block of a file. Kind, File and Raw are always set, the other fields only for
// the kinds in their comments.
type Block struct {
	Kind Kind
	File *File
	Raw  pcapng.Block // as in the file; Raw.Raw is nil for a pcap file

	Interface  *Interface        // of a Packet, Described and Statistics; nil for statistics of an unknown one
	Packet     pcapng.Packet     // Time is in ns since the Unix epoch; Data is valid until the file's next block
	Time       int64             // of a Packet: Packet.Time as a signed number, for times before 1970
	Untimed    bool              // a packet without a time, for which Time is 0
	Statistics pcapng.Statistics // times are in ns since the Unix epoch
	Known      pcapng.Counters   // the counters that Statistics has

	order int64 // see Order
}

// An Interface is an interface that a file describes.
type Interface struct {
	File     *File
	Index    int    // within its section
	Number   int    // among all interfaces of a Merge, from 0 on
	Name     string // truncated to 256 bytes; "" = not in the file
	About    string // its description, truncated to 1024 bytes; "" = not in the file
	Filter   string // the expression that chose its packets, truncated to 1024 bytes; "" = not in the file
	LinkType uint16
	SnapLen  uint32     // 0 = no limit
	Netmask  net.IPMask // of IPv4; nil = not in the file
	clock    pcapng.Clock
}

// Order returns the time by which packets are merged: Time or, for a packet without one, the
// previous packet's.
func (b *Block) Order() int64 { return b.order }

// Stamp converts a time in ns since the Unix epoch to the units of the interface.
func (i *Interface) Stamp(ns int64) uint64 { return i.clock.Stamp(ns) }

// A Format is a capture file format.
type Format int

const (
	PCAPNG Format = iota
	PCAP
)

// A File is a capture file that is being read. It belongs to one goroutine.
type File struct {
	Name   string // for errors
	Format Format
	Index  int // among the files of a Merge

	in     *window
	decode io.Closer    // the decompressor; nil = the file is not compressed
	next   func() error // reads the next block of the format into block
	ready  func() bool  // reports whether next needs no more bytes of the input
	block  Block        // the result of Next

	first      pcapng.Block      // the first section
	big        bool              // the current section has big-endian numbers
	interfaces []*Interface      // of the current section
	described  int               // number of interfaces in all sections
	packets    uint64            // returned so far
	last       int64             // order of the previous packet
	correct    func(int64) int64 // Options.Correct
	prefix     string            // Options.Prefix
	classic    classic           // the header of a pcap file
}

// Options are the options of New. The zero value is ready to use.
type Options struct {
	// BeforeRead, if not nil, is called before each read of the input, which may block. The input
	// may then sometimes return 0 bytes and no error while it waits. An error of BeforeRead ends
	// the reading.
	BeforeRead func() error

	// Late, if not nil, is called after each read that has returned 0 bytes. If it returns true, a
	// Merge goes on with the other files, and tries this one again before each of their packets. It
	// needs a BeforeRead. It is not called for compressed inputs.
	Late func() bool

	// Correct, if not nil, converts the times of the file, in ns since the Unix epoch. The blocks
	// have the converted times, too.
	Correct func(ns int64) int64

	// Prefix comes before the names of a pcapng file's interfaces, in their blocks, too.
	Prefix string

	// Memory is shared with the other files that are open at the same time; nil = no other files.
	Memory *Memory
}

// New starts to read a file. The name is used only in errors.
func New(in io.Reader, name string, o Options) (*File, error) {
	f := &File{Name: name, in: &window{in: in, before: o.BeforeRead}, correct: o.Correct, prefix: o.Prefix}
	f.block.File = f
	if err := f.decompress(cmp.Or(o.Memory, new(Memory))); err != nil {
		return nil, err
	}
	magic, err := f.in.peek(4)
	switch {
	case len(magic) < 4 && (len(magic) > 0 || !errors.Is(err, io.EOF)):
		err = f.endError(err, len(magic))
	case pcapng.IsSection(magic):
		err = f.openPCAPNG()
	case f.classic.recognise(magic):
		err = f.openPCAP()
	default:
		err = unknown(magic, name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if f.decode == nil {
		f.in.late = o.Late
	}
	return f, nil
}

// Recognise returns the error of New for a file that is neither a capture file nor compressed, by
// the first four bytes of it; nil = it may be one.
func Recognise(start []byte, name string) error {
	start = start[:min(len(start), 4)]
	partial := len(start) > 0 && len(start) < 4
	if partial || isGzip(start) || isZstd(start) || pcapng.IsSection(start) || new(classic).recognise(start) {
		return nil
	}
	return unknown(start, name)
}

// unknown returns the error for a file that begins with these bytes.
func unknown(start []byte, name string) error {
	switch {
	case len(start) == 0:
		return message.Errorf(errUnknown, "%s is empty", name)
	case start[0] == '{':
		return message.Errorf(errUnknown, "%s has lines of JSON, which cannot be read again: neither pcapng nor pcap", name)
	}
	return message.Errorf(errUnknown, "%s is neither pcapng nor pcap, but begins with the bytes % x", name, start)
}

// Close frees the resources of decompression. It does not close the input.
func (f *File) Close() {
	if f.decode != nil {
		f.decode.Close()
		f.decode = nil
	}
}

// FirstSection returns the first section header of a pcapng file.
func (f *File) FirstSection() pcapng.Block { return f.first }

// Next returns the next block, which is valid until the call after it. The error is io.EOF at the
// end, or matches one of the kinds of this package.
func (f *File) Next() (*Block, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return &f.block, nil
}

// IsReady reports whether the next call of Next reads no input, so that the data of earlier blocks
// stay valid.
func (f *File) IsReady() bool { return f.ready() }

// endError returns the error for an input that ends, or fails with err, after this many bytes of a
// block.
func (f *File) endError(err error, have int) error {
	switch {
	case errors.Is(err, errLate):
		return err
	case errors.Is(err, io.EOF) && have == 0:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return message.Errorf(errCut, "%s is truncated after %s, within the block at byte %d%s",
			f.Name, packets(f.packets), f.in.offset, f.unpacked())
	}
	return fmt.Errorf("read %s after %s, at byte %d%s: %w", f.Name, packets(f.packets), f.in.offset, f.unpacked(), err)
}

// damaged returns the error for an invalid block.
func (f *File) damaged(why error) error {
	return message.Errorf(errDamaged, "%s is damaged after %s, at byte %d%s: %w",
		f.Name, packets(f.packets), f.in.offset, f.unpacked(), why)
}

func (f *File) unpacked() string {
	if f.decode == nil {
		return ""
	}
	return " of the decompressed data"
}

func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return fmt.Sprintf("%d packets", n)
}
