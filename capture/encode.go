package capture

import (
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// nextGeneration encodes pcapng: DESIGN.md section 4 says what stands where.
type nextGeneration struct {
	d       description
	options WriterOptions
	macs    [][]byte
	fields  []pcapng.Fields // which are known, by interface
	block   pcapng.Packet   // kept, so that none is allocated per packet
}

func newNextGeneration(d description, o WriterOptions) *nextGeneration {
	e := &nextGeneration{d: d, options: o}
	for _, ifi := range d.interfaces {
		e.macs = append(e.macs, ifi.MAC)
		fields := pcapng.Fields(pcapng.HasQueue | pcapng.HasID)
		if ifi.HasVerdict() {
			fields |= pcapng.HasVerdict
		}
		e.fields = append(e.fields, fields)
	}
	return e
}

func (e *nextGeneration) header(b []byte) []byte {
	b = pcapng.AppendSection(b, &pcapng.Section{
		Hardware:    e.d.hardware,
		OS:          e.d.os,
		Application: e.options.Application,
		Comment:     e.d.comment(e.options.CommandLine),
	})
	for _, ifi := range e.d.interfaces {
		b = pcapng.AppendInterface(b, &pcapng.Interface{
			Name:        ifi.Label(),
			Description: ifi.Alias,
			Hardware:    ifi.Driver,
			OS:          e.d.os,
			Filter:      e.d.options.filterText(),
			MAC:         ifi.MAC,
			Speed:       ifi.Speed,
			LinkType:    uint16(layers.LinkTypeEthernet),
			SnapLen:     uint32(e.d.options.SnapLen),
		})
	}
	return b
}

func (e *nextGeneration) packet(b []byte, p *Packet) []byte {
	block := &e.block // filled field by field: Session.take
	block.Interface = uint32(p.Interface)
	block.Time = uint64(p.Time)
	block.WireLen = uint32(p.WireLen)
	block.Data = p.Data
	block.Flags = pcapng.Inbound | pcapng.Reception(p.Data, e.macs[p.Interface])
	block.Fields = e.fields[p.Interface]
	block.Queue = p.Queue
	block.ID = p.ID
	block.Verdict = uint32(p.Verdict)
	block.Dropped = p.Dropped
	return pcapng.AppendPacket(b, block)
}

func (e *nextGeneration) trailer(b []byte, s Stats) []byte {
	now := uint64(time.Now().UnixNano())
	for i, c := range s.Interfaces {
		b = pcapng.AppendStatistics(b, &pcapng.Statistics{
			Interface: uint32(i),
			Time:      now,
			Start:     uint64(e.d.started),
			End:       now,
			Received:  c.Seen,
			Accepted:  c.Matched(),
			OSDropped: c.Lost,
			Delivered: c.Captured,
		})
	}
	return b
}

// classic encodes pcap through gopacket. It has no place for anything but packets.
type classic struct {
	d   description
	out sink
	w   *pcapgo.Writer
}

// A sink is the buffer's tail as an io.Writer.
type sink []byte

func (s *sink) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}

func newClassic(d description) *classic {
	e := &classic{d: d}
	e.w = pcapgo.NewWriterNanos(&e.out)
	return e
}

func (e *classic) header(b []byte) []byte {
	e.out = b
	e.w.WriteFileHeader(uint32(e.d.options.SnapLen), layers.LinkTypeEthernet) // the sink takes everything
	return e.out
}

func (e *classic) packet(b []byte, p *Packet) []byte {
	e.out = b
	e.w.WritePacket(p.CaptureInfo(), p.Data)
	return e.out
}

func (e *classic) trailer(b []byte, _ Stats) []byte { return b }
