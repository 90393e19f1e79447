package capfile

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A Span is the time of a file's packets, in ns since the Unix epoch.
type Span struct {
	First   int64
	Last    int64
	HasLast bool // false if the file is compressed, truncated or pcap
}

// SpanOf reads a file's span from its beginning and its end. The error is io.EOF if it has no
// packets. Packets in between may be out of order.
func SpanOf(in io.ReaderAt, size int64, name string, memory *Memory) (s Span, err error) {
	f, err := New(io.NewSectionReader(in, 0, size), name, Options{Memory: memory})
	if err != nil {
		return s, err
	}
	defer f.Close()
	head := int64(0) // bytes before the first packet
	for b := (*Block)(nil); b == nil || b.Kind != Packet; {
		head = f.in.offset
		if b, err = f.Next(); err != nil {
			return s, err
		}
		s.First = b.Order()
	}
	if f.decode == nil && f.Format == PCAPNG {
		if tail, ok := lastPacket(in, size, f); ok {
			s.Last, s.HasLast = lastTime(io.MultiReader(io.NewSectionReader(in, 0, head), io.NewSectionReader(in, tail, size-tail)), name)
			s.HasLast = s.HasLast && s.Last >= s.First
		}
	}
	return s, nil
}

// lastPacket returns the offset of the last packet in a pcapng file. It reads the blocks backwards,
// because each one ends with its length.
func lastPacket(in io.ReaderAt, size int64, f *File) (at int64, ok bool) {
	order := binary.ByteOrder(binary.LittleEndian)
	if f.big {
		order = binary.BigEndian
	}
	const mostBlocks = 1000 // statistics of interfaces, which come after the packets
	b := make([]byte, 4)
	at = size
	for range mostBlocks {
		if at < 4 {
			return 0, false
		}
		if _, err := in.ReadAt(b, at-4); err != nil {
			return 0, false
		}
		length := int64(order.Uint32(b))
		if length < pcapng.HeaderSize || length > at {
			return 0, false
		}
		at -= length
		if _, err := in.ReadAt(b, at); err != nil {
			return 0, false
		}
		switch order.Uint32(b) {
		case pcapng.TypePacket, pcapng.TypeOldPacket:
			return at, true
		}
	}
	return 0, false
}

// lastTime returns the latest time of a packet in a file whose middle was left out.
func lastTime(in io.Reader, name string) (last int64, ok bool) {
	f, err := New(in, name, Options{})
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for {
		b, err := f.Next()
		switch {
		case errors.Is(err, io.EOF):
			return last, ok
		case err != nil:
			return 0, false
		case b.Kind == Packet:
			last, ok = max(last, b.Order()), true
		}
	}
}
