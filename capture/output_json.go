package capture

import "github.com/xdpcap/xdpcap/internal/jsonline"

// jsonEncoder encodes one line of JSON for each packet. There is nothing besides packets.
type jsonEncoder struct {
	lines    *jsonline.Encoder
	verdicts []bool // by source: whether its packets have one
	line     jsonline.Packet

	outletName func(Outlet) string // nil = no packet has one
}

func newJSONEncoder(d *Description) *jsonEncoder {
	e := &jsonEncoder{outletName: d.OutletName}
	var sources []jsonline.Source
	for i := range d.Sources {
		s := &d.Sources[i]
		sources = append(sources, jsonline.Source{Interface: s.Name, Direction: s.Direction().String(), Hook: s.Hook.String(), Program: s.Target.Name, NoQueue: !s.HasQueue()})
		e.verdicts = append(e.verdicts, s.HasVerdict())
	}
	e.lines = jsonline.NewEncoder(sources)
	return e
}

func (e *jsonEncoder) header(b []byte) []byte { return b }

func (e *jsonEncoder) packets(c *chunk, packets []Packet) (n int) {
	line := &e.line
	for ; n < len(packets) && c.hasRoom(e.lines.MaxLine()); n++ {
		p := &packets[n]
		// The fields are set one by one, for the reason given in reader.take.
		line.Source = int(p.Source)
		line.Time = p.Stamp()
		line.Data = p.Data
		line.WireLen = int(p.WireLen)
		line.Queue = p.Queue
		line.ID = p.ID
		line.Verdict = ""
		if e.verdicts[p.Source] {
			line.Verdict = p.Verdict.String()
		}
		line.To = ""
		if p.To != 0 && e.outletName != nil {
			line.To = e.outletName(p.To)
		}
		line.Dropped = p.Dropped
		line.GSOSize = int(p.GSOSize)
		line.Weight = p.Weight
		line.Hash, line.HashBy = p.Hash, p.HashKind.String()
		line.SetBack = p.ClockSetBack
		c.blocks = e.lines.Append(c.blocks, line)
		c.place(p)
	}
	return n
}

func (e *jsonEncoder) trailer(b []byte, _ *statistics) []byte { return b }
