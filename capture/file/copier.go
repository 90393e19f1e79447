package file

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A Block is a block of a capture file that is not a packet, for a [Copier]. It is valid until the
// function that gets it returns.
type Block struct{ block *capfile.Block }

// Len is how many bytes a Copier appends for the block at most.
func (b Block) Len() int { return len(b.block.Raw.Raw) + capture.MaxOverhead }

// A BlockKind is the kind of block that a Copier has appended for a Block.
type BlockKind int

const (
	NoBlock        BlockKind = iota // no block
	SectionBlock                    // the next files of a series begin with it
	InterfaceBlock                  // they repeat it after the SectionBlock
	LastingBlock                    // repeated, too: names of addresses, or secrets for decryption
	OtherBlock
)

// A Copier makes pcapng of the packets of an [Input], as a [capture.Encoder] does, but copies their
// blocks with every option in them, even unknown ones. The blocks of a single pcapng file stay
// unchanged. Several files, and pcap files, become one little-endian section in which interfaces
// have new numbers. If the packets were anonymized it copies no block: it encodes new blocks for
// packets, interfaces and the numbers of their statistics. A Copier belongs to one goroutine.
type Copier struct {
	in          *Input
	application string
	plain       bool // blocks stay unchanged: there is a single file, of pcapng, and not anonymized
	unlimited   bool // the output declares no snapshot length: see capture.Files

	encoder *capture.Encoder                // for anonymized packets; nil = packets are as in the files
	more    func(from int) []capture.Source // returns the sources of encoder's packets, from an index

	sections        map[*capfile.File]int // number of sections so far
	omitted         map[uint32]uint64     // number of omitted blocks, by type
	omittedSections int                   // sections whose comments and options are not in the output
}

// NewCopier returns a Copier for the input that this describes; nil if it is not an [Input].
// application is the name and version of the program that writes, for the header.
func NewCopier(d *capture.Description, application string) *Copier {
	in, _ := d.Files.(*Input)
	if in == nil {
		return nil
	}
	c := &Copier{
		in: in, application: application,
		plain:     len(in.files) == 1 && in.files[0].Format == capfile.PCAPNG && d.Anonymized == "",
		unlimited: in.IsUnlimited(),
		sections:  make(map[*capfile.File]int), omitted: make(map[uint32]uint64),
	}
	if d.Anonymized != "" {
		c.encoder, c.more = capture.NewEncoder(d, capture.EncoderOptions{Application: application}), d.More
	}
	return c
}

// OnBlocks makes the input call take with each block that is not a packet, at its position among
// the packets of its file. take runs in the goroutine of Run, between its calls of Write.
func (c *Copier) OnBlocks(take func(Block)) {
	c.in.onBlocks(func(b *capfile.Block) { take(Block{b}) })
}

// Header appends a file's header. For a single pcapng file it appends no bytes, because the header
// is that file's first block.
func (c *Copier) Header(b []byte) []byte {
	switch {
	case c.plain:
		return b
	case c.encoder != nil:
		return c.encoder.Header(b)
	}
	return c.in.AppendHeader(b, c.application)
}

// AppendHeader implements [capture.Files].
func (in *Input) AppendHeader(b []byte, application string) []byte {
	var names []string
	var sections []pcapng.Block
	for _, f := range in.files {
		if f.Format == capfile.PCAPNG {
			names, sections = append(names, f.Name), append(sections, f.FirstSection())
		}
	}
	if len(sections) == 0 {
		return pcapng.AppendSection(b, &pcapng.Section{Application: application})
	}
	return pcapng.AppendMergedSection(b, names, sections)
}

// stored returns the input's own data of a packet.
func stored(p *capture.Packet) *storedPacket { return p.Stored.Block.(*storedPacket) }

// Len is how many bytes Append appends at most.
func (c *Copier) Len(p *capture.Packet) int {
	if c.encoder != nil {
		return len(p.Data) + capture.MaxOverhead
	}
	return max(len(stored(p).raw.Raw), len(p.Data)+capture.MaxOverhead)
}

// Append appends the block of a packet.
func (c *Copier) Append(b []byte, p *capture.Packet) []byte {
	if c.encoder != nil {
		return c.encoder.Append(b, p)
	}
	f := stored(p)
	switch {
	case c.plain:
		return append(b, f.raw.Raw...)
	case f.raw.Raw != nil:
		if copied, ok := c.renumber(b, f.raw, f.from); ok {
			return copied
		}
	}
	return c.encode(b, p)
}

// renumber appends a copy of a block, of a packet or of statistics, with the new number of its
// interface. It returns false if the block has no room for the number.
func (c *Copier) renumber(b []byte, raw pcapng.Block, from *capfile.Interface) ([]byte, bool) {
	start := len(b)
	if c.unlimited && raw.Type == pcapng.TypeSimple {
		return b, false // its packet's length follows from the snapshot length, which is not declared
	}
	b, _ = pcapng.AppendCopy(b, raw)
	if pcapng.Renumber(b[start:], uint32(from.Number)) {
		return b, true
	}
	return b[:start], false
}

// encode makes a new block for a packet from a pcap file, or for one whose block has no room for
// the interface's new number.
func (c *Copier) encode(b []byte, p *capture.Packet) []byte {
	f := stored(p)
	block := pcapng.Packet{
		Interface: uint32(p.Source), WireLen: p.WireLen, Time: uint64(f.order), Data: p.Data, Dropped: p.Dropped, ID: p.ID, Queue: p.Queue,
		Verdict: uint32(p.Verdict), VerdictKind: pcapng.VerdictKind(p.VerdictKind), Hash: p.Hash, Flags: f.Flags, Fields: f.known,
	}
	if f.raw.Raw != nil { // in units of the interface; a pcap file's are ns
		block.Time = f.from.Stamp(f.order)
	}
	return pcapng.AppendPacket(b, &block)
}

// AppendBlock appends a block that is not a packet, and returns its kind.
func (c *Copier) AppendBlock(to []byte, from Block) ([]byte, BlockKind) {
	b, start := from.block, len(to)
	kind := c.kindOf(b)
	switch {
	case c.encoder != nil:
		return c.encodeBlock(to, b, kind)
	case c.plain:
		to = append(to, b.Raw.Raw...)
		if b.Kind == capfile.Section {
			pcapng.EndOpenly(to[start:])
		}
		return to, kind
	case b.Kind == capfile.Section:
		if c.sections[b.File]++; c.sections[b.File] > 1 { // the first one is in the merged header
			c.omittedSections++
		}
		return to, NoBlock
	case b.Raw.Raw == nil: // an interface of a pcap file, which has no block
		i := pcapng.Interface{LinkType: b.Interface.LinkType, SnapLen: b.Interface.SnapLen}
		if c.unlimited {
			i.SnapLen = 0
		}
		return pcapng.AppendInterface(to, &i), kind
	}
	return c.merge(to, b, kind)
}

// kindOf returns the kind of the copy of a block, unless it is omitted.
func (c *Copier) kindOf(b *capfile.Block) BlockKind {
	switch {
	case b.Kind == capfile.Described:
		return InterfaceBlock
	case b.Kind == capfile.Section && c.plain:
		return SectionBlock
	case b.Kind == capfile.Other && b.Raw.IsLasting():
		return LastingBlock
	}
	return OtherBlock
}

// encodeBlock encodes a new block for the interface of anonymized packets, or for the numbers of
// its statistics, and omits other blocks.
func (c *Copier) encodeBlock(to []byte, b *capfile.Block, kind BlockKind) ([]byte, BlockKind) {
	switch {
	case b.Kind == capfile.Section: // replaced by the header
	case b.Kind == capfile.Described:
		src := c.more(b.Interface.Number)[0]
		return c.encoder.Describe(to, &src), kind
	case b.Kind == capfile.Statistics && b.Interface != nil && b.Known != 0:
		s := b.Statistics
		s.Interface, s.Known = uint32(b.Interface.Number), b.Known
		return pcapng.AppendStatistics(to, &s), kind
	default:
		c.omitted[b.Raw.Type]++
	}
	return to, NoBlock
}

// merge copies a block into the one section, or counts it as omitted if that is not possible.
func (c *Copier) merge(to []byte, b *capfile.Block, kind BlockKind) ([]byte, BlockKind) {
	copied, start := true, len(to)
	switch {
	case b.Kind == capfile.Statistics && b.Interface == nil:
		copied = false
	case b.Kind == capfile.Statistics:
		to, copied = c.renumber(to, b.Raw, b.Interface)
	default:
		to, copied = pcapng.AppendCopy(to, b.Raw)
	}
	if copied && c.unlimited && b.Kind == capfile.Described {
		pcapng.Unlimit(to[start:])
	}
	if !copied {
		c.omitted[b.Raw.Type]++
		return to, NoBlock
	}
	return to, kind
}

// Omitted returns a notice for each kind of content that a merged or anonymized file cannot have.
func (c *Copier) Omitted() (all []error) {
	why := "xdpcap does not know how to adapt them to a merged file"
	switch {
	case c.encoder != nil:
		why = "they may have addresses"
		all = append(all, errors.New("omitted the comments of the files that were read, and all options that may have an address"))
	case c.omittedSections > 0:
		all = append(all, fmt.Errorf("omitted the headers (hardware, OS, application, comments) of %d more sections: a merged file has one section", c.omittedSections))
	}
	for _, typ := range slices.Sorted(maps.Keys(c.omitted)) {
		all = append(all, fmt.Errorf("omitted %d blocks of type %d: %s", c.omitted[typ], typ, why))
	}
	return all
}
