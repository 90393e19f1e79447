package capture

import (
	"time"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// pcapngEncoder encodes pcapng as docs/pcapng.md describes.
type pcapngEncoder struct {
	d       Description
	options WriterOptions
	sources []*pcapng.Template
	block   pcapng.Packet // for packets that are not plain; reused for each
	outlet  outletCache
}

func newPCAPNGEncoder(d *Description, o *WriterOptions) *pcapngEncoder {
	e := &pcapngEncoder{d: *d, options: *o}
	for i, src := range d.Sources {
		direction := uint32(pcapng.Inbound)
		if src.Direction() == Out {
			direction = pcapng.Outbound
		}
		e.sources = append(e.sources, pcapng.NewTemplate(uint32(i), src.HasQueue(), src.HasVerdict(), direction, src.MAC))
	}
	return e
}

func (e *pcapngEncoder) header(b []byte) []byte {
	if e.d.files != nil { // capture files describe their interfaces one by one
		return newCopyEncoder(e.d.files, &e.options).mergedHeader(b)
	}
	b = pcapng.AppendSection(b, &pcapng.Section{
		Hardware:    e.d.Hardware,
		OS:          e.d.OS,
		Application: e.options.Application,
		Comment:     e.d.comment(e.options.CommandLine),
	})
	for i := range e.d.Sources {
		b = e.describe(b, &e.d.Sources[i])
	}
	return b
}

// describe appends the description of a source's interface.
func (e *pcapngEncoder) describe(b []byte, src *Source) []byte {
	i := pcapng.Interface{
		Name:        src.Label(),
		Description: description(src),
		Hardware:    src.Driver,
		OS:          e.d.OS,
		Filter:      e.d.Options.Filter,
		Program:     filterInstructions(e.d.Options.FilterProgram),
		MAC:         src.MAC,
		Speed:       src.Speed,
		LinkType:    src.LinkType(),
		SnapLen:     uint32(e.d.Options.SnapLen),
	}
	if src.File != "" {
		i.Description, i.SnapLen = "", src.SnapLen
		if src.Name == "" {
			i.Name = "" // Label is the file's name
		}
	}
	return pcapng.AppendInterface(b, &i)
}

// description is the if_description: the interface's alias and, for sent packets, the hook.
func description(src *Source) string {
	switch {
	case src.Direction() != Out:
		return src.Alias
	case src.Alias == "":
		return src.Hook.String()
	}
	return src.Alias + ", " + src.Hook.String()
}

func filterInstructions(program []bpf.RawInstruction) (all []pcapng.Instruction) {
	for _, i := range program {
		all = append(all, pcapng.Instruction(i))
	}
	return all
}

func (e *pcapngEncoder) packets(c *chunk, packets []Packet) (n int, err error) {
	for ; n < len(packets) && c.hasRoom(len(packets[n].Data)+maxOverhead); n++ {
		p := &packets[n]
		if p.file == nil {
			c.blocks = e.append(c.blocks, p.Facts, p.Data)
		} else {
			c.blocks = e.appendRead(c.blocks, p)
		}
		c.noteEnd(p)
	}
	return n, nil
}

// appendRead appends a packet of a capture file. Its comments keep what no option can say.
func (e *pcapngEncoder) appendRead(b []byte, p *Packet) []byte {
	return pcapng.AppendPacket(b, &pcapng.Packet{
		Interface: uint32(p.Source), Time: uint64(p.Time), WireLen: p.WireLen, Data: p.Data, Dropped: p.Dropped, ID: p.ID, Queue: p.Queue,
		Verdict: uint32(p.Verdict), Hash: p.Hash, Flags: p.file.flags, Fields: p.file.known, Comments: p.Comments(),
	})
}

// append appends the block of a packet.
func (e *pcapngEncoder) append(b []byte, f *Facts, data []byte) []byte {
	source := e.sources[f.Source]
	if f.isPlain() {
		return source.Append(b, data, uint64(f.Stamp()), f.ID, f.WireLen, f.Queue, uint32(f.Verdict))
	}
	return source.AppendPacket(b, e.fill(f, data))
}

// isPlain tells whether a packet has only the facts that most packets have.
func (f *Facts) isPlain() bool {
	return f.Dropped|uint64(f.ClockSetBack)|uint64(f.HashKind|HashKind(f.GSOSize|f.RunTime)|HashKind(f.To)) == 0 && f.Weight <= 1
}

// fill makes the block of a packet that is not plain. It reuses e.block, to allocate nothing per
// packet.
func (e *pcapngEncoder) fill(f *Facts, data []byte) *pcapng.Packet {
	b := &e.block
	*b = pcapng.Packet{
		Time: uint64(f.Stamp()), WireLen: f.WireLen, Data: data,
		ID: f.ID, Queue: f.Queue, Verdict: uint32(f.Verdict), Dropped: f.Dropped,
		Remarks: pcapng.Remarks{SetBack: f.ClockSetBack, Weight: f.Weight, GSOSize: f.GSOSize, RunTime: f.RunTime},
	}
	if f.HashKind == ToeplitzHash {
		b.Hash, b.Fields = f.Hash, pcapng.HasHash
	}
	if f.To != 0 && e.d.OutletName != nil {
		b.Outlet = e.outlet.of(f.To, e.d.OutletName)
	}
	return b
}

// An outletCache has the name of the last outlet, because the next packets mostly have the same.
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

func (e *pcapngEncoder) trailer(b []byte, s *statistics) []byte {
	now := uint64(time.Now().UnixNano())
	for i, a := range s.Accounts {
		comments := []string{s.comment(i)}
		if e.options.Comments != nil {
			comments = append(comments, e.options.Comments(i)...)
		}
		b = pcapng.AppendStatistics(b, &pcapng.Statistics{
			Interface: uint32(i),
			Time:      now,
			Start:     uint64(s.start.UnixNano()),
			End:       now,
			Received:  a.Seen,
			Accepted:  a.Matched(),
			Dropped:   a.Lost,
			OSDropped: a.Dropped(),
			Delivered: a.Captured,
			Comments:  comments,
		})
	}
	return b
}
