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
	SectionBlock                    // starts a new header for all output files from here on
	InterfaceBlock                  // belongs to that header
	LastingBlock                    // belongs to it, too: names of addresses, or secrets for decryption
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
	plain       bool // there is a single file, and it is pcapng
	unlimited   bool // the output declares no snapshot length: see capture.Files

	encoder *capture.Encoder                // for anonymized packets; nil = packets are as in the files
	more    func(from int) []capture.Source // returns the sources of encoder's packets, from an index

	sections        map[*capfile.File]int
	omitted         map[uint32]uint64 // number of omitted blocks, by type
	omittedSections int               // sections whose comments and options are not in the output
}

// NewCopier returns a Copier for the input that this describes; nil if it is not an [Input].
// application is the name and version of the program that writes, for the header.
func NewCopier(d *capture.Description, application string) *Copier {
	in, _ := d.Files.(*Input)
	if in == nil {
		return nil
	}
	e := &Copier{
		in: in, application: application,
		plain:     len(in.files) == 1 && in.files[0].Format == capfile.PCAPNG && d.Anonymized == "",
		unlimited: in.IsUnlimited(),
		sections:  make(map[*capfile.File]int), omitted: make(map[uint32]uint64),
	}
	if d.Anonymized != "" {
		e.encoder, e.more = capture.NewEncoder(d, capture.EncoderOptions{Application: application}), d.More
	}
	return e
}

// OnBlocks makes the input call take with each block that is not a packet, in its place among the
// packets of its file. take runs in the goroutine that calls Write.
func (e *Copier) OnBlocks(take func(Block)) {
	e.in.onBlocks(func(b *capfile.Block) { take(Block{b}) })
}

// Header appends a file's header. For a single pcapng file it appends no bytes, because the header
// is that file's first block.
func (e *Copier) Header(b []byte) []byte {
	switch {
	case e.plain:
		return b
	case e.encoder != nil:
		return e.encoder.Header(b)
	}
	return e.in.AppendHeader(b, e.application)
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
func (e *Copier) Len(p *capture.Packet) int {
	if e.encoder != nil {
		return len(p.Data) + capture.MaxOverhead
	}
	return max(len(stored(p).raw.Raw), len(p.Data)+capture.MaxOverhead)
}

// Append appends the block of a packet.
func (e *Copier) Append(b []byte, p *capture.Packet) []byte {
	if e.encoder != nil {
		return e.encoder.Append(b, p)
	}
	f := stored(p)
	if e.plain {
		return append(b, f.raw.Raw...)
	}
	if f.raw.Raw != nil {
		if copied, ok := e.copy(b, f.raw, f.from); ok {
			return copied
		}
	}
	return e.encode(b, p)
}

// copy copies a block of an interface with its new number. It returns false if the block has no
// room for the number.
func (e *Copier) copy(b []byte, raw pcapng.Block, from *capfile.Interface) ([]byte, bool) {
	start := len(b)
	if e.unlimited && raw.Type == pcapng.TypeSimple {
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
func (e *Copier) encode(b []byte, p *capture.Packet) []byte {
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
func (e *Copier) AppendBlock(to []byte, from Block) ([]byte, BlockKind) {
	b, kind, start := from.block, OtherBlock, len(to)
	switch {
	case b.Kind == capfile.Described:
		kind = InterfaceBlock
	case b.Kind == capfile.Section && e.plain:
		kind = SectionBlock
	case b.Kind == capfile.Other && b.Raw.IsLasting():
		kind = LastingBlock
	}
	switch {
	case e.encoder != nil:
		return e.describe(to, b, kind)
	case e.plain:
		to = append(to, b.Raw.Raw...)
		if b.Kind == capfile.Section {
			pcapng.EndOpenly(to[start:])
		}
	case b.Kind == capfile.Section:
		if e.sections[b.File]++; e.sections[b.File] > 1 { // the first one is in the merged header
			e.omittedSections++
		}
		return to, NoBlock
	case b.Raw.Raw == nil: // an interface of a pcap file, which has no block
		to = pcapng.AppendInterface(to, &pcapng.Interface{LinkType: b.Interface.LinkType, SnapLen: e.snapLen(b.Interface.SnapLen)})
	default:
		return e.merge(to, b, kind)
	}
	return to, kind
}

// describe encodes new blocks for the interfaces of anonymized packets and the numbers of their
// statistics, and omits all other blocks.
func (e *Copier) describe(to []byte, b *capfile.Block, kind BlockKind) ([]byte, BlockKind) {
	switch {
	case b.Kind == capfile.Section: // replaced by the header
	case b.Kind == capfile.Described:
		src := e.more(b.Interface.Number)[0]
		return e.encoder.Describe(to, &src), kind
	case b.Kind == capfile.Statistics && b.Interface != nil && b.Known != 0:
		s := b.Statistics
		s.Interface, s.Known = uint32(b.Interface.Number), b.Known
		return pcapng.AppendStatistics(to, &s), kind
	default:
		e.omitted[b.Raw.Type]++
	}
	return to, NoBlock
}

// merge copies a block into the one section, or counts it as omitted if that is not possible.
func (e *Copier) merge(to []byte, b *capfile.Block, kind BlockKind) ([]byte, BlockKind) {
	copied, start := true, len(to)
	switch {
	case b.Kind == capfile.Statistics && b.Interface == nil:
		copied = false
	case b.Kind == capfile.Statistics:
		to, copied = e.copy(to, b.Raw, b.Interface)
	default:
		to, copied = pcapng.AppendCopy(to, b.Raw)
	}
	if copied && e.unlimited && b.Kind == capfile.Described {
		pcapng.Unlimit(to[start:])
	}
	if !copied {
		e.omitted[b.Raw.Type]++
		return to, NoBlock
	}
	return to, kind
}

// snapLen returns the snapshot length to write for an interface whose own is of.
func (e *Copier) snapLen(of uint32) uint32 {
	if e.unlimited {
		return 0
	}
	return of
}

// Omitted returns a notice for each kind of content that a merged or anonymized file cannot have.
func (e *Copier) Omitted() (all []error) {
	if e.encoder != nil {
		all = append(all, errors.New("omitted the comments of the files that were read, and all options that may have an address"))
		for _, typ := range slices.Sorted(maps.Keys(e.omitted)) {
			all = append(all, fmt.Errorf("omitted %d blocks of type %d: they may have addresses", e.omitted[typ], typ))
		}
		return all
	}
	if e.omittedSections > 0 {
		all = append(all, fmt.Errorf("omitted the headers (hardware, OS, application, comments) of %d more sections: a merged file has one section", e.omittedSections))
	}
	for _, typ := range slices.Sorted(maps.Keys(e.omitted)) {
		all = append(all, fmt.Errorf("omitted %d blocks of type %d: xdpcap does not know how to adapt them to a merged file", e.omitted[typ], typ))
	}
	return all
}
