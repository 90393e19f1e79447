package capture

import (
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// pcapEncoder encodes pcap through gopacket. The format has no place for anything but packets.
type pcapEncoder struct {
	snapLen uint32
	out     tail
	w       *pcapgo.Writer
}

// A tail is an io.Writer that appends to a buffer.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	return len(b), nil
}

func newPCAPEncoder(d *Description) *pcapEncoder {
	e := &pcapEncoder{snapLen: uint32(d.Options.SnapLen)}
	e.w = pcapgo.NewWriterNanos(&e.out)
	return e
}

func (e *pcapEncoder) header(b []byte) []byte {
	e.out = b
	e.w.WriteFileHeader(e.snapLen, layers.LinkTypeEthernet) // cannot fail: a tail takes all
	return e.out
}

func (e *pcapEncoder) packets(c *chunk, packets []Packet) (n int) {
	for ; n < len(packets) && c.hasRoom(len(packets[n].Data)+maxOverhead); n++ {
		p := &packets[n]
		e.out = c.blocks
		e.w.WritePacket(p.CaptureInfo(), p.Data)
		c.blocks = e.out
		c.place(p)
	}
	return n
}

func (e *pcapEncoder) trailer(b []byte, _ *statistics) []byte { return b }
