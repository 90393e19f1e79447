package capfile

import (
	"encoding/binary"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A classic is the header of a classic pcap file.
type classic struct {
	order      binary.ByteOrder
	resolution byte // decimals of a second: 6 or 9
	header     int  // bytes of each packet's header
	swapped    bool // the writer may have swapped the two lengths of a packet
	totals     bool // the header is followed by the total size of the packets, 4 bytes
}

// The numbers with which the variants of the classic format begin.
const (
	magicMicro    = 0xa1b2c3d4 // microseconds
	magicNano     = 0xa1b23c4d // nanoseconds
	magicModified = 0xa1b2cd34 // longer packet headers, by an old patch of libpcap
	magicIxia     = 0x1c0001ab // Ixia's two variants, which Wireshark reads with microseconds
	magicIxiaCard = 0x1c0001ac
)

// recognise reports whether a file that begins with these four bytes is a pcap file, and sets the
// fields that follow from them.
func (c *classic) recognise(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		c.order, c.resolution, c.header, c.totals = order, 6, 16, false
		switch order.Uint32(b) {
		case magicMicro:
			return true
		case magicNano:
			c.resolution = 9
			return true
		case magicModified:
			c.header = 24
			return true
		case magicIxia, magicIxiaCard:
			c.totals = true
			return true
		}
	}
	return false
}

const classicFileHeader = 24

// openPCAP reads the header. Next then returns the file's only interface, and packets.
func (f *File) openPCAP() error {
	head, err := f.in.peek(classicFileHeader)
	if err != nil {
		return f.endError(err, len(head))
	}
	c := &f.classic
	major, minor := c.order.Uint16(head[4:]), c.order.Uint16(head[6:])
	const dgux = 543 // DG/UX's tcpdump has this version, and the fields of version 2.2
	if major != 2 && major != dgux {
		return f.damaged(fmt.Errorf("it has version %d.%d of the format, only 2 and 543 are known", major, minor))
	}
	c.swapped = minor <= 3 // writers of older versions disagreed about the order
	f.Format = PCAP
	f.interfaces = []*Interface{{
		File: f, SnapLen: c.order.Uint32(head[16:]), LinkType: c.order.Uint16(lowHalf(c.order, head[20:])),
		clock: pcapng.NewClock(c.resolution, 0),
	}}
	f.in.skip(classicFileHeader)
	if c.totals {
		total, err := f.in.peek(4)
		if err != nil {
			return f.endError(err, max(len(total), 1))
		}
		f.in.skip(4)
	}
	f.ready = f.isReadyPCAP
	f.next = func() error {
		f.next = f.nextPCAP
		f.block.Kind, f.block.Interface = Described, f.interfaces[0]
		return nil
	}
	return nil
}

// lowHalf returns the lower two of the four bytes of a number. The upper half is the length of the
// frame check sequence.
func lowHalf(order binary.ByteOrder, b []byte) []byte {
	if order == binary.BigEndian {
		return b[2:4]
	}
	return b[:2]
}

func (f *File) isReadyPCAP() bool {
	c := &f.classic
	if !f.in.has(c.header) {
		return false
	}
	head := f.in.buf[f.in.from:]
	kept := c.order.Uint32(head[8:])
	if c.swapped {
		kept = min(kept, c.order.Uint32(head[12:]))
	}
	return kept > pcapng.MaxBlock || f.in.has(c.header+int(kept))
}

func (f *File) nextPCAP() error {
	c := &f.classic
	head, err := f.in.peek(c.header)
	if err != nil {
		return f.endError(err, len(head))
	}
	seconds, fraction := c.order.Uint32(head), c.order.Uint32(head[4:])
	kept, length := c.order.Uint32(head[8:]), c.order.Uint32(head[12:])
	if c.swapped && kept > length {
		kept, length = length, kept
	}
	if kept > pcapng.MaxBlock {
		return f.damaged(fmt.Errorf("a packet's length is %d bytes", kept))
	}
	raw, err := f.in.peek(c.header + int(kept))
	if err != nil {
		return f.endError(err, max(len(raw), 1))
	}
	scale := int64(1)
	if c.resolution == 6 {
		scale = 1000
	}
	b := &f.block
	b.Kind, b.Interface = Packet, f.interfaces[0]
	b.Time = int64(seconds)*1e9 + int64(fraction)*scale
	if f.correct != nil {
		b.Time = f.correct(b.Time)
	}
	b.order = b.Time
	b.Packet = pcapng.Packet{Time: uint64(b.Time), WireLen: length, Data: raw[c.header:]}
	f.in.skip(len(raw))
	f.packets++
	return nil
}
