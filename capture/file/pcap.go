package file

import (
	"cmp"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

var asPCAP = formatKind{
	name:     "pcap",
	suffixes: []string{".pcap"},
	open:     func(d *capture.Description, o *Options) encoder { return newPCAPEncoder(d, o) },
}

// pcapEncoder encodes classic pcap. The format holds only packets, all of one link type.
type pcapEncoder struct {
	d       *capture.Description
	unit    pcapng.PcapUnit
	sources []capture.Source

	// The link type is that of a capture file's first packet, so the header is written with that
	// packet.
	late     bool
	begun    bool
	linkType uint16
}

func newPCAPEncoder(d *capture.Description, o *Options) *pcapEncoder {
	e := &pcapEncoder{d: d, unit: pcapng.PcapNanoseconds, sources: d.Sources, late: d.More != nil && !d.IsLive(), linkType: pcapng.Ethernet}
	if o.Microseconds {
		e.unit = pcapng.PcapMicroseconds
	}
	return e
}

func (e *pcapEncoder) header(b []byte) []byte {
	if e.late {
		return b
	}
	return e.begin(b)
}

func (e *pcapEncoder) begin(b []byte) []byte {
	snapLen := uint32(0)
	for i := range e.sources {
		snapLen = max(snapLen, cmp.Or(e.sources[i].SnapLen, uint32(e.d.Options.SnapLen)))
	}
	return pcapng.AppendPcapHeader(b, e.unit, cmp.Or(snapLen, uint32(e.d.Options.SnapLen)), e.linkType)
}

func (e *pcapEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	for ; n < len(packets) && c.hasRoom(len(packets[n].Data)+capture.MaxOverhead); n++ {
		p := &packets[n]
		if e.late {
			if err := e.check(c, p); err != nil {
				return n, err
			}
		}
		c.blocks = pcapng.AppendPcapPacket(c.blocks, e.unit, p.Stamp(), p.WireLen, p.Data)
		c.notePacket(p)
	}
	return n, nil
}

// check begins the file at the first packet, and rejects packets of another link type.
func (e *pcapEncoder) check(c *chunk, p *capture.Packet) error {
	e.sources = append(e.sources, e.d.More(len(e.sources))...)
	linkType := e.sources[p.Source].LinkType()
	if !e.begun {
		e.linkType = linkType
		e.beginLate(c)
	}
	if linkType == e.linkType {
		return nil
	}
	return fmt.Errorf("a pcap file has packets of one link type, and these have %s and %s: write pcapng; it has the packets up to there",
		pcapng.LinkTypeName(e.linkType), pcapng.LinkTypeName(linkType))
}

// finish writes the header of a file without packets.
func (e *pcapEncoder) finish(c *chunk) {
	if !e.late || e.begun {
		return
	}
	e.sources = e.d.More(0)
	if len(e.sources) > 0 {
		e.linkType = e.sources[0].LinkType()
	}
	e.beginLate(c)
}

// beginLate adds the header to the blocks.
func (e *pcapEncoder) beginLate(c *chunk) {
	c.blocks = e.begin(c.blocks)
	c.noteBlock(headBlock)
	e.begun = true
}

func (e *pcapEncoder) trailer(b []byte, _ *statistics) []byte { return b }
