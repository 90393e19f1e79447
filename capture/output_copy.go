package capture

import (
	"fmt"
	"maps"
	"slices"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// copyEncoder encodes pcapng from capture files: it copies their blocks with every option in them,
// even unknown ones. The blocks of a single pcapng file stay unchanged. Several files, and pcap
// files, become one little-endian section in which interfaces have new numbers.
type copyEncoder struct {
	files       []*capfile.File
	application string
	plain       bool // there is a single file, and it is pcapng
	unlimited   bool // see hasManyFiles

	sections map[*capfile.File]int
	leftOut  map[uint32]uint64 // number of omitted blocks, by type
	lost     int               // sections whose comments and options are not in the output
}

func newCopyEncoder(in *FileInput, application string) *copyEncoder {
	return &copyEncoder{
		files: in.files, application: application,
		plain:     len(in.files) == 1 && in.files[0].Format == capfile.PCAPNG,
		unlimited: in.hasManyFiles(),
		sections:  make(map[*capfile.File]int), leftOut: make(map[uint32]uint64),
	}
}

func (e *copyEncoder) header(b []byte) []byte {
	if e.plain {
		return b
	}
	return e.mergedHeader(b)
}

// mergedHeader appends the section for packets of all files.
func (e *copyEncoder) mergedHeader(b []byte) []byte {
	var names []string
	var sections []pcapng.Block
	for _, f := range e.files {
		if f.Format == capfile.PCAPNG {
			names, sections = append(names, f.Name), append(sections, f.FirstSection())
		}
	}
	if len(sections) == 0 {
		return pcapng.AppendSection(b, &pcapng.Section{Application: e.application})
	}
	return pcapng.AppendMergedSection(b, names, sections)
}

func (e *copyEncoder) trailer(b []byte, _ *statistics) []byte { return b }

func (e *copyEncoder) packets(c *chunk, packets []Packet) (n int, err error) {
	for ; n < len(packets); n++ {
		p := &packets[n]
		f := p.file
		if !c.hasRoom(max(len(f.raw.Raw), len(p.Data)+MaxOverhead)) {
			break
		}
		switch {
		case e.plain:
			c.blocks = append(c.blocks, f.raw.Raw...)
		case f.raw.Raw == nil || !e.copy(c, f.raw, f.from):
			c.blocks = e.encode(c.blocks, p)
		}
		c.noteEnd(p)
	}
	return n, nil
}

// copy copies a block of an interface with its new number. It returns false if the block has no
// room for the number.
func (e *copyEncoder) copy(c *chunk, raw pcapng.Block, from *capfile.Interface) bool {
	start := len(c.blocks)
	if e.unlimited && raw.Type == pcapng.TypeSimple {
		return false // the number of its bytes is in the snapshot length
	}
	c.blocks, _ = pcapng.AppendCopy(c.blocks, raw)
	if pcapng.Renumber(c.blocks[start:], uint32(from.Number)) {
		return true
	}
	c.blocks = c.blocks[:start]
	return false
}

// encode makes a new block for a packet from a pcap file, or for one whose block has no room for
// the interface's new number.
func (e *copyEncoder) encode(b []byte, p *Packet) []byte {
	f := p.file
	block := pcapng.Packet{
		Interface: uint32(p.Source), WireLen: p.WireLen, Time: uint64(f.order), Data: p.Data, Dropped: p.Dropped, ID: p.ID, Queue: p.Queue,
		Verdict: uint32(p.Verdict), Hash: p.Hash, Flags: f.flags, Fields: f.known,
	}
	if f.raw.Raw != nil {
		block.Time = f.from.Stamp(f.order)
	}
	return pcapng.AppendPacket(b, &block)
}

func (e *copyEncoder) block(c *chunk, b *capfile.Block) bool {
	if !c.hasRoom(len(b.Raw.Raw) + MaxOverhead) {
		return false
	}
	kind, start := uint32(otherBlock), len(c.blocks)
	switch {
	case b.Kind == capfile.Described:
		kind = headMore
	case b.Kind == capfile.Section && e.plain:
		kind = headBlock
	}
	switch {
	case e.plain:
		c.blocks = append(c.blocks, b.Raw.Raw...)
		if b.Kind == capfile.Section {
			pcapng.EndOpenly(c.blocks[start:])
		}
	case b.Kind == capfile.Section:
		if e.sections[b.File]++; e.sections[b.File] > 1 {
			e.lost++
		}
		return true
	case b.Raw.Raw == nil:
		c.blocks = pcapng.AppendInterface(c.blocks, &pcapng.Interface{LinkType: b.Interface.LinkType, SnapLen: e.snapLen(b.Interface.SnapLen)})
	default:
		return e.merge(c, b, kind)
	}
	c.noteBlock(kind)
	return true
}

// merge copies a block into the one section, or counts it as omitted if that is not possible.
func (e *copyEncoder) merge(c *chunk, b *capfile.Block, kind uint32) bool {
	copied, start := true, len(c.blocks)
	switch {
	case b.Kind == capfile.Statistics && b.Interface == nil:
		copied = false
	case b.Kind == capfile.Statistics:
		copied = e.copy(c, b.Raw, b.Interface)
	default:
		c.blocks, copied = pcapng.AppendCopy(c.blocks, b.Raw)
	}
	if copied && e.unlimited && b.Kind == capfile.Described {
		pcapng.Unlimit(c.blocks[start:])
	}
	if copied {
		c.noteBlock(kind)
	} else {
		e.leftOut[b.Raw.Type]++
	}
	return true
}

// snapLen is the snapshot length to write for that of an interface.
func (e *copyEncoder) snapLen(of uint32) uint32 {
	if e.unlimited {
		return 0
	}
	return of
}

func (e *copyEncoder) notices() (all []error) {
	if e.lost > 0 {
		all = append(all, fmt.Errorf("omitted the headers (hardware, OS, application, comments) of %d more sections: a merged file has one section", e.lost))
	}
	for _, typ := range slices.Sorted(maps.Keys(e.leftOut)) {
		all = append(all, fmt.Errorf("omitted %d blocks of type %d: xdpcap does not know how to adapt them to a merged file", e.leftOut[typ], typ))
	}
	return all
}
