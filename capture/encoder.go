package capture

import (
	"fmt"
	"time"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// MaxOverhead is the upper bound for the bytes of a block besides the packet's. In pcapng the
// largest part of them is a comment.
const MaxOverhead = 512

// EncoderOptions are the data that an [Encoder] writes besides packets. The zero value of each
// field is its default.
type EncoderOptions struct {
	Application string // name and version of the program that writes, for the header
	CommandLine string // for the comment in the header

	// Comments, if not nil, returns comments for a source's statistics, each shorter than 64 KiB.
	// source is an index into Session.Sources. Where packets are anonymized they are omitted.
	Comments func(source int) []string
}

// An Encoder makes pcapng of an input's packets, for outputs of any kind: a stream is the result of
// Header, then packets, and at the end statistics. docs/pcapng.md describes the blocks. An Encoder
// belongs to one goroutine; any goroutine may call AppendStatistics.
type Encoder struct {
	d       Description
	options EncoderOptions
	sources *SourceList

	templates  []*pcapng.Template // by source
	interfaces uint32             // interfaces in the stream so far: the number of the next one

	block  pcapng.Packet // for packets that are not plain; reused for each
	outlet outletCache
	cause  causeCache
}

// NewEncoder returns an Encoder of the packets of an input that this describes.
func NewEncoder(d *Description, o EncoderOptions) *Encoder {
	e := &Encoder{d: *d, options: o, sources: NewSourceList(d)}
	for i := range d.Sources {
		e.addSource(i)
	}
	return e
}

// addSource prepares the blocks of a source's packets. The source gets the next interface of the
// stream.
func (e *Encoder) addSource(source int) {
	src := e.sources.Of(source)
	direction, mac := uint32(pcapng.Inbound), src.MAC
	switch {
	case !src.HasDirection():
		direction, mac = 0, nil // the packet's source or destination may be the interface's address
	case src.Direction() == Out:
		direction = pcapng.Outbound
	}
	for len(e.templates) <= source {
		e.templates = append(e.templates, nil)
	}
	e.templates[source] = pcapng.NewTemplate(e.interfaces, src.HasQueue(), src.HasVerdict(), direction, mac)
	e.interfaces++
}

// AddSources adds the sources of a session that have come since the last call, or since the
// description was made, and returns their indexes. The caller writes their descriptions into the
// stream, by Describe, in this order and before their packets.
func (e *Encoder) AddSources() []int {
	if !e.d.IsLive() {
		return nil
	}
	come := e.sources.Update()
	for _, source := range come {
		e.addSource(source)
	}
	return come
}

// Source returns the source that has an index now.
func (e *Encoder) Source(index int) *Source { return e.sources.Of(index) }

// Header appends the section's header and, for a live input, the descriptions of its sources and
// the names of addresses. Sources of capture files are described later: see Description.More.
func (e *Encoder) Header(b []byte) []byte {
	if e.d.Files != nil && e.d.Anonymized == "" {
		return e.d.Files.AppendHeader(b, e.options.Application)
	}
	b = pcapng.AppendSection(b, &pcapng.Section{
		Hardware:    e.d.Hardware,
		OS:          e.d.OS,
		Application: e.options.Application,
		Comment:     e.d.comment(e.options.CommandLine),
	})
	if e.d.IsLive() {
		for i := range e.d.Sources {
			b = e.Describe(b, &e.d.Sources[i])
		}
	}
	return pcapng.AppendNames(b, e.names())
}

// names are the names of addresses, for the header.
func (e *Encoder) names() (all []pcapng.Name) {
	for _, n := range e.d.Options.Names {
		all = append(all, pcapng.Name(n))
	}
	return all
}

// Describe appends the description of a source's interface. A stream has those of all sources, in
// their order, and each before the first packet of its source.
func (e *Encoder) Describe(b []byte, src *Source) []byte {
	expression := e.d.Options.Filter
	if e.d.Options.FilterChanges {
		expression = src.Filter
	}
	i := pcapng.Interface{
		Name:        src.Label(),
		Description: src.Description(),
		Hardware:    src.Driver,
		OS:          e.d.OS,
		Filter:      expression,
		Program:     filterInstructions(e.d.Options.FilterProgram),
		MAC:         src.MAC,
		Speed:       src.Speed,
		LinkType:    src.LinkType(),
		SnapLen:     uint32(e.d.Options.SnapLen),
	}
	if src.File != "" {
		i.SnapLen = src.SnapLen
		if e.d.Files != nil && e.d.Files.IsUnlimited() {
			i.SnapLen = 0
		}
		if src.Name == "" {
			i.Name = "" // Label is the file's name
		}
	}
	return pcapng.AppendInterface(b, &i)
}

func filterInstructions(program []bpf.RawInstruction) (all []pcapng.Instruction) {
	for _, i := range program {
		all = append(all, pcapng.Instruction(i))
	}
	return all
}

// Append appends the block of a packet. It takes at most MaxOverhead bytes more than the packet's
// own. If b has room for that, there is no allocation.
func (e *Encoder) Append(b []byte, p *Packet) []byte {
	if p.Stored == nil {
		return e.append(b, p.Source, p.Facts, p.Data)
	}
	return e.appendRead(b, p)
}

// appendRead appends a packet of a capture file. It keeps the comments, because no option has their
// data. A packet without a block, as in a pcap file, gets comments from its Facts.
func (e *Encoder) appendRead(b []byte, p *Packet) []byte {
	if p.Stored.Block == nil {
		block := e.fill(p.Source, p.Facts, p.Data)
		block.Interface, block.Flags, block.Fields = uint32(p.Source), p.Stored.Flags, fieldsOf(p)
		return pcapng.AppendPacket(b, block)
	}
	return pcapng.AppendPacket(b, &pcapng.Packet{
		Interface: uint32(p.Source), Time: uint64(p.Time), WireLen: p.WireLen, Data: p.Data, Dropped: p.Dropped, ID: p.ID, Queue: p.Queue,
		Verdict: uint32(p.Verdict), VerdictKind: pcapng.VerdictKind(p.VerdictKind), Hash: p.Hash, Flags: p.Stored.Flags, Fields: fieldsOf(p), Comments: p.Comments(),
	})
}

// fieldsOf returns which options the block of a packet of a capture file has.
func fieldsOf(p *Packet) (f pcapng.Fields) {
	for _, field := range []struct {
		has bool
		is  pcapng.Fields
	}{{p.Stored.HasVerdict, pcapng.HasVerdict}, {p.Stored.HasQueue, pcapng.HasQueue}, {p.Stored.HasID, pcapng.HasID}, {p.HashKind == ToeplitzHash, pcapng.HasHash}} {
		if field.has {
			f |= field.is
		}
	}
	return f
}

// append appends the block of a packet.
func (e *Encoder) append(b []byte, source uint16, f *Facts, data []byte) []byte {
	template := e.templates[source]
	if isPlain(f) {
		return template.Append(b, data, uint64(f.Stamp()), f.ID, f.WireLen, f.Queue, uint32(f.Verdict))
	}
	return template.AppendPacket(b, e.fill(source, f, data))
}

// isPlain reports whether a packet has only the facts that most packets have. It compares all rare
// facts with 0 at once, because that is faster than one comparison for each.
func isPlain(f *Facts) bool {
	rare32 := uint32(f.HashKind) | f.RunTime | uint32(f.GSOSize) | uint32(f.To) | uint32(f.Reason) | uint32(f.VerdictKind)
	rare64 := f.Dropped | uint64(f.ClockSetBack) | uint64(f.Location)
	return rare64|uint64(rare32) == 0 && f.Weight <= 1
}

// fill makes the block of a packet that is not plain. It reuses e.block, to avoid an allocation for
// each packet.
func (e *Encoder) fill(source uint16, f *Facts, data []byte) *pcapng.Packet {
	b := &e.block
	*b = pcapng.Packet{
		Time: uint64(f.Stamp()), WireLen: f.WireLen, Data: data,
		ID: f.ID, Queue: f.Queue, Verdict: uint32(f.Verdict), Dropped: f.Dropped,
		Remarks: pcapng.Remarks{SetBack: f.ClockSetBack, Weight: f.Weight, GSOSize: uint32(f.GSOSize), RunTime: f.RunTime},
	}
	if f.HashKind == ToeplitzHash {
		b.Hash, b.Fields = f.Hash, pcapng.HasHash
	}
	if f.To != 0 && e.d.OutletName != nil {
		if b.Outlet = e.outlet.of(f.To, e.d.OutletName); f.Device() != 0 {
			b.Outlet, b.Device = nil, b.Outlet
		}
	}
	if (f.Location != 0 || f.Reason != 0) && e.d.ReasonName != nil {
		b.Reason, b.Location = e.cause.of(source, f, &e.d)
	}
	switch b.VerdictKind = pcapng.VerdictKind(f.VerdictKind); f.VerdictKind {
	case TCVerdict:
		b.TCName = f.VerdictKind.NameOf(f.Verdict)
	case PlainNumber:
		b.IsReturned = true
	}
	return b
}

// An outletCache has the name of the last outlet, because the next packet mostly has the same.
type outletCache struct {
	outlet Outlet
	name   []byte
}

func (c *outletCache) of(to Outlet, name func(Outlet) string) []byte {
	if c.outlet != to {
		*c = outletCache{to, []byte(name(to))}
	}
	return c.name
}

// A causeCache has the names of the last reason and location of a loss. They depend on the source,
// too.
type causeCache struct {
	source       uint16
	reason       Reason
	location     Location
	reasonName   []byte // nil = the cache is empty
	locationName []byte
}

func (c *causeCache) of(source uint16, f *Facts, d *Description) (reason, location []byte) {
	if c.source != source || c.reason != f.Reason || c.location != f.Location || c.reasonName == nil {
		reason, location := d.CauseNames(source, f)
		*c = causeCache{source, f.Reason, f.Location, []byte(reason), []byte(location)}
	}
	return c.reasonName, c.locationName
}

// unexplained returns the equation of an account that does not add up; "" for other accounts.
func unexplained(a Account) string {
	if a.Unexplained == 0 {
		return ""
	}
	return a.Equation()
}

// AppendStatistics appends the statistics of a source. number is that of its interface in the
// stream, and own its account since start. comment, if not nil, returns a comment for a source's
// statistics; if nil, an account that does not add up is the comment.
func (e *Encoder) AppendStatistics(b []byte, source int, number uint32, own Account, start time.Time, comment func(source int) string) []byte {
	comments := []string{unexplained(own)}
	if comment != nil {
		comments[0] = comment(source)
	}
	if e.options.Comments != nil && e.d.Anonymized == "" {
		comments = append(comments, e.options.Comments(source)...)
	}
	if own.PassedBy > 0 {
		comments = append(comments, fmt.Sprintf(passedByComment, own.PassedBy))
	}
	now := uint64(time.Now().UnixNano())
	return pcapng.AppendStatistics(b, &pcapng.Statistics{
		Interface: number,
		Time:      now,
		Start:     uint64(start.UnixNano()),
		End:       now,
		Received:  own.Seen,
		Accepted:  own.Matched(),
		Dropped:   own.Lost,
		OSDropped: own.Dropped(),
		Delivered: own.Captured,
		Comments:  comments,
	})
}
