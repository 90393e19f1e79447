package capture

import (
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// pcapngEncoder encodes pcapng: DESIGN.md section 4 says what stands where.
type pcapngEncoder struct {
	d       Description
	options WriterOptions
	macs    [][]byte        // by source
	sent    []bool          // whether a source's packets were sent
	fields  []pcapng.Fields // which are known, by source
	block   pcapng.Packet   // kept, so that none is allocated per packet
	outlet  outletCache
}

func newPCAPNGEncoder(d *Description, o *WriterOptions) *pcapngEncoder {
	e := &pcapngEncoder{d: *d, options: *o}
	for _, src := range d.Sources {
		e.macs = append(e.macs, src.MAC)
		e.sent = append(e.sent, src.Direction() == Out)
		fields := pcapng.Fields(pcapng.HasID)
		if src.HasQueue() {
			fields |= pcapng.HasQueue
		}
		if src.HasVerdict() {
			fields |= pcapng.HasVerdict
		}
		e.fields = append(e.fields, fields)
	}
	return e
}

func (e *pcapngEncoder) header(b []byte) []byte {
	b = pcapng.AppendSection(b, &pcapng.Section{
		Hardware:    e.d.Hardware,
		OS:          e.d.OS,
		Application: e.options.Application,
		Comment:     e.d.comment(e.options.CommandLine),
	})
	for _, src := range e.d.Sources {
		b = pcapng.AppendInterface(b, &pcapng.Interface{
			Name:        src.Label(),
			Description: description(&src),
			Hardware:    src.Driver,
			OS:          e.d.OS,
			Filter:      e.d.Options.Filter,
			Program:     filterInstructions(e.d.Options.FilterProgram),
			MAC:         src.MAC,
			Speed:       src.Speed,
			LinkType:    uint16(layers.LinkTypeEthernet),
			SnapLen:     uint32(e.d.Options.SnapLen),
		})
	}
	return b
}

// description is if_description: the interface's alias, and the hook where it is at egress.
func description(src *Source) string {
	switch {
	case src.Hook != Egress:
		return src.Alias
	case src.Alias == "":
		return src.Hook.String()
	}
	return src.Alias + ", " + src.Hook.String()
}

// flags is epb_flags. A packet that is sent to one station is unicast, whichever that is.
func (e *pcapngEncoder) flags(p *Packet) uint32 {
	if e.sent[p.Source] {
		return pcapng.Outbound | pcapng.Reception(p.Data, p.Data[:min(len(p.Data), 6)])
	}
	return pcapng.Inbound | pcapng.Reception(p.Data, e.macs[p.Source])
}

func filterInstructions(program []bpf.RawInstruction) (all []pcapng.Instruction) {
	for _, i := range program {
		all = append(all, pcapng.Instruction(i))
	}
	return all
}

func (e *pcapngEncoder) packets(c *chunk, packets []Packet) (n int) {
	block := &e.block
	for ; n < len(packets); n++ {
		p := &packets[n]
		if !c.hasRoom(len(p.Data) + maxOverhead) {
			break
		}
		// The fields are set one by one, for the reason given in reader.take.
		block.Interface = uint32(p.Source)
		block.Time = uint64(p.Stamp())
		block.WireLen = p.WireLen
		block.Data = p.Data
		block.Flags = e.flags(p)
		block.Fields = e.fields[p.Source]
		block.Queue = p.Queue
		block.ID = p.ID
		block.Verdict = uint32(p.Verdict)
		if p.HashKind == ToeplitzHash {
			block.Hash, block.Fields = p.Hash, block.Fields|pcapng.HasHash
		}
		block.Dropped = p.Dropped
		block.SetBack = p.ClockSetBack
		block.Weight = p.Weight
		block.GSOSize = p.GSOSize
		block.Outlet = nil
		if p.To != 0 && e.d.OutletName != nil {
			block.Outlet = e.outlet.of(p.To, e.d.OutletName)
		}
		c.blocks = pcapng.AppendPacket(c.blocks, block)
		c.place(p)
	}
	return n
}

// An outletCache has the name of the last outlet, because the packets that follow mostly have the
// same.
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
