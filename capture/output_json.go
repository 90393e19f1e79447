package capture

import (
	"bytes"
	"io"

	"github.com/xdpcap/xdpcap/internal/jsonline"
)

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
		line.Source = p.Source
		line.Time = p.Stamp()
		line.Data = p.Data
		line.WireLen = p.WireLen
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
		line.GSOSize = p.GSOSize
		c.blocks = e.lines.Append(c.blocks, line)
		c.place(p)
	}
	return n
}

func (e *jsonEncoder) trailer(b []byte, _ *statistics) []byte { return b }

// pipeLines is how many bytes of whole lines are written to a pipe at once: PIPE_BUF, up to which
// the kernel never mixes them with what another process writes. To write each line by itself would
// cost several times as much as to make it.
const pipeLines = 4096

// A lineWriter writes whole lines to a pipe or the like, as many at once as nobody else's can get
// between. A longer line is written by itself.
type lineWriter struct{ out io.Writer }

func (w lineWriter) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		n := len(b)
		if n > pipeLines {
			n = bytes.LastIndexByte(b[:pipeLines], '\n') + 1
		}
		if n == 0 {
			n = bytes.IndexByte(b, '\n') + 1
		}
		n, err := w.out.Write(b[:n])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}
