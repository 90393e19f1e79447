package main

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A pcapngCopy copies the blocks of one pcapng file as they stand.
type pcapngCopy struct{}

func (pcapngCopy) header(b []byte) []byte { return b }
func (pcapngCopy) end(b []byte) []byte    { return b }
func (pcapngCopy) notices() []string      { return nil }

func (pcapngCopy) block(b []byte, from *capfile.Block) ([]byte, error) {
	start := len(b)
	b = append(b, from.Raw.Raw...)
	if from.Kind == capfile.Section {
		pcapng.EndOpenly(b[start:])
	}
	return b, nil
}

// A pcapngMerge makes one little-endian section of the sections of several files.
type pcapngMerge struct {
	files    []*capfile.File
	sections map[*capfile.File]int
	leftOut  map[uint32]uint64 // blocks by type
	lost     int               // sections whose texts are not in the output
}

func (m *pcapngMerge) header(b []byte) []byte {
	m.sections, m.leftOut = make(map[*capfile.File]int), make(map[uint32]uint64)
	var names []string
	var sections []pcapng.Block
	for _, f := range m.files {
		if f.Format == capfile.PCAPNG {
			names, sections = append(names, f.Name), append(sections, f.FirstSection())
		}
	}
	if len(sections) == 0 {
		return pcapng.AppendSection(b, &pcapng.Section{Application: "xdpcap " + applicationVersion()})
	}
	return pcapng.AppendMergedSection(b, names, sections)
}

func (m *pcapngMerge) end(b []byte) []byte { return b }

func (m *pcapngMerge) notices() (all []string) {
	if m.lost > 0 {
		all = append(all, fmt.Sprintf("left out what %d more sections within a file say of who wrote them: one section has room for one", m.lost))
	}
	for typ, n := range m.leftOut {
		all = append(all, fmt.Sprintf("left out %d blocks of type %d: xdpcap does not know what to change in them for a merged file", n, typ))
	}
	return all
}

func (m *pcapngMerge) block(b []byte, from *capfile.Block) ([]byte, error) {
	switch {
	case from.Kind == capfile.Section:
		if m.sections[from.File]++; m.sections[from.File] > 1 {
			m.lost++
		}
		return b, nil
	case from.Raw.Raw == nil:
		return m.classic(b, from), nil
	case from.Kind == capfile.Statistics && from.Interface == nil:
		m.leftOut[from.Raw.Type]++
		return b, nil
	}
	start := len(b)
	b, ok := pcapng.AppendCopy(b, from.Raw)
	if !ok {
		m.leftOut[from.Raw.Type]++
		return b, nil
	}
	if from.Kind != capfile.Packet && from.Kind != capfile.Statistics {
		return b, nil
	}
	if !pcapng.Renumber(b[start:], uint32(from.Interface.Number)) {
		// A block that has no room for the number becomes one that has.
		p := from.Packet
		p.Interface, p.Time = uint32(from.Interface.Number), from.Interface.Stamp(from.Order())
		b = pcapng.AppendPacket(b[:start], &p)
	}
	return b, nil
}

// classic appends what stands in a pcap file.
func (m *pcapngMerge) classic(b []byte, from *capfile.Block) []byte {
	if from.Kind == capfile.Described {
		return pcapng.AppendInterface(b, &pcapng.Interface{LinkType: from.Interface.LinkType, SnapLen: from.Interface.SnapLen})
	}
	p := from.Packet
	p.Interface = uint32(from.Interface.Number)
	return pcapng.AppendPacket(b, &p)
}

// defaultSnapLen is tcpdump's, for what has no limit.
const defaultSnapLen = 262144

// A pcapCopy makes a classic pcap file with nanoseconds.
type pcapCopy struct {
	linkType uint16
	snapLen  uint32
	known    bool // an interface has been described
	begun    bool
}

func (c *pcapCopy) header(b []byte) []byte { return b }
func (c *pcapCopy) notices() []string      { return nil }

// end makes the header also of a file without packets.
func (c *pcapCopy) end(b []byte) []byte {
	if c.begun {
		return b
	}
	return c.begin(b)
}

func (c *pcapCopy) block(b []byte, from *capfile.Block) ([]byte, error) {
	i := from.Interface
	switch {
	case from.Kind == capfile.Described:
		if !c.known {
			c.linkType, c.known = i.LinkType, true
		}
		c.snapLen = max(c.snapLen, cmp.Or(i.SnapLen, defaultSnapLen))
		return b, nil
	case from.Kind != capfile.Packet:
		return b, nil
	case !c.begun:
		c.linkType = i.LinkType
		b = c.begin(b)
	case i.LinkType != c.linkType:
		return b, fmt.Errorf("a pcap file has packets of one link type, and these have %s and %s: write pcapng",
			linkTypeName(c.linkType), linkTypeName(i.LinkType))
	}
	p, le := &from.Packet, binary.LittleEndian
	at := max(from.Time, 0)
	b = le.AppendUint32(b, uint32(at/1e9))
	b = le.AppendUint32(b, uint32(at%1e9))
	b = le.AppendUint32(b, uint32(len(p.Data)))
	b = le.AppendUint32(b, p.WireLen)
	return append(b, p.Data...), nil
}

func (c *pcapCopy) begin(b []byte) []byte {
	const magicNano = 0xa1b23c4d
	c.begun = true
	le := binary.LittleEndian
	snapLen, linkType := c.snapLen, c.linkType
	if !c.known {
		snapLen, linkType = defaultSnapLen, pcapng.Ethernet
	}
	b = le.AppendUint32(b, magicNano)
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 4)
	b = le.AppendUint64(b, 0) // time zone and accuracy, which nobody uses
	b = le.AppendUint32(b, snapLen)
	return le.AppendUint32(b, uint32(linkType))
}
