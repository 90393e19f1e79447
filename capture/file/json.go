package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/jsonline"
	"github.com/xdpcap/xdpcap/internal/link"
)

var asJSON = formatKind{
	name:       "json",
	about:      "a line for each packet",
	suffixes:   []string{".json", ".jsonl"},
	isText:     true,
	hasWeights: true,
	open:       func(d *capture.Description, o *Options) encoder { return newJSONEncoder(d, o) },
}

// jsonEncoder encodes one line of JSON for each packet, and nothing else.
type jsonEncoder struct {
	d       *capture.Description
	sources *capture.SourceList
	lines   *jsonline.Encoder
	kinds   map[jsonKind]int // for sources of capture files: the index of each kind in lines
	line    jsonline.Packet

	moreKeys func(line []byte, p *capture.Packet) []byte // nil = none
	more     []byte                                      // of the next packet
	hasMore  bool
}

// A jsonKind is what the packets of a source that have the same JSON keys have in common. In a
// capture file each packet may differ.
type jsonKind struct {
	source                                    int
	direction                                 capture.Direction
	hasDirection, hasQueue, hasID, hasVerdict bool
}

// maxJSONKinds limits how many kinds are remembered: a file may have any number.
const maxJSONKinds = 1024

func newJSONEncoder(d *capture.Description, o *Options) *jsonEncoder {
	e := &jsonEncoder{d: d, moreKeys: o.MoreJSON, sources: capture.NewSourceList(d), lines: jsonline.NewEncoder(nil), kinds: make(map[jsonKind]int)}
	for i := range d.Sources {
		e.know(i)
	}
	return e
}

// know prepares the lines of a live source, which has one kind.
func (e *jsonEncoder) know(source int) {
	if !e.d.IsLive() {
		return
	}
	s := e.sources.Of(source)
	e.lines.Set(source, jsonline.Source{
		Interface: s.Name, Namespace: s.Pod.Namespace, Pod: s.Pod.Name, Direction: directionOf(s), Hook: s.Hook.String(),
		Program: s.Target.Name, NoQueue: !s.HasQueue(),
	})
}

func (e *jsonEncoder) header(b []byte) []byte { return b }

func (e *jsonEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	e.look()
	for ; n < len(packets); n++ {
		p := &packets[n]
		e.prepare(p)
		if !c.hasRoom(e.lines.MaxLine() + len(e.more)) {
			break
		}
		c.blocks = e.append(c.blocks, p)
		c.noteEnd(p)
	}
	return n, nil
}

// look adds the sources that there are by now.
func (e *jsonEncoder) look() {
	for _, source := range e.sources.Look() {
		e.know(source)
	}
}

// prepare finds out what the packet's line needs before it is known how long it may be.
func (e *jsonEncoder) prepare(p *capture.Packet) {
	e.line.Source = int(p.Source)
	if !e.d.IsLive() {
		e.line.Source = e.kind(p)
	}
	if e.moreKeys != nil && !e.hasMore {
		e.more, e.hasMore = e.moreKeys(e.more[:0], p), true
	}
}

// append appends the line of the packet that was prepared.
func (e *jsonEncoder) append(b []byte, p *capture.Packet) []byte {
	// The fields are set one by one, because assigning a whole struct would build and then copy it.
	line := &e.line
	line.Time, line.Untimed = p.Stamp(), !p.HasTime()
	line.Data = p.Data
	line.WireLen = int(p.WireLen)
	line.Queue = p.Queue
	line.ID = p.ID
	line.Verdict = ""
	line.To = ""
	if verdict, known := e.sources.Of(int(p.Source)).VerdictOf(p); known {
		line.Verdict = verdict.String()
	}
	if p.To != 0 && e.d.OutletName != nil {
		line.To = e.d.OutletName(p.To)
	}
	line.Reason, line.Location = e.d.CauseNames(p.Facts)
	line.Dropped = p.Dropped
	line.GSOSize = int(p.GSOSize)
	line.RunTime = p.RunTime
	line.Weight = p.Weight
	line.Hash, line.HashBy = p.Hash, p.HashKind.String()
	line.SetBack = p.ClockSetBack
	b = e.lines.Append(b, line)
	if e.hasMore {
		b = append(append(b[:len(b)-len("}\n")], e.more...), "}\n"...)
		e.hasMore = false
	}
	return b
}

// directionOf is "" if the source's packets may go either way.
func directionOf(s *capture.Source) string {
	if !s.HasDirection() {
		return ""
	}
	return s.Direction().String()
}

// kind returns the index of a packet's kind in lines.
func (e *jsonEncoder) kind(p *capture.Packet) int {
	s := e.sources.Of(int(p.Source))
	k := jsonKind{source: int(p.Source)}
	k.direction, k.hasDirection = s.DirectionOf(p)
	_, k.hasQueue = s.QueueOf(p)
	_, k.hasID = s.IDOf(p)
	_, k.hasVerdict = s.VerdictOf(p)
	if index, ok := e.kinds[k]; ok {
		return index
	}
	source := jsonline.Source{
		Interface: s.Name, Namespace: s.Pod.Namespace, Pod: s.Pod.Name, Program: s.Target.Name, NoQueue: !k.hasQueue, NoID: !k.hasID,
		Link: link.ToDecode(s.LinkType()),
	}
	if k.hasDirection {
		source.Direction = k.direction.String()
	}
	switch {
	case s.Hook != capture.UnknownHook:
		source.Hook = s.Hook.String()
	case k.hasQueue && k.hasVerdict: // receive queues are known only at these hooks
		source.Hook = capture.TailCall.String()
	case k.hasQueue:
		source.Hook = capture.XDP.String()
	}
	if len(e.kinds) == maxJSONKinds {
		clear(e.kinds)
		e.lines = jsonline.NewEncoder(nil)
	}
	index := e.lines.Add(source)
	e.kinds[k] = index
	return index
}

func (e *jsonEncoder) trailer(b []byte, _ *statistics) []byte { return b }

// JSONLines makes the lines of a file in JSON one by one, for an output that puts packets into
// objects of its own. It belongs to one goroutine.
type JSONLines struct{ e *jsonEncoder }

// NewJSONLines returns the lines of packets from what d describes. more, if not nil, is
// [Options.MoreJSON].
func NewJSONLines(d capture.Description, more func(line []byte, p *capture.Packet) []byte) *JSONLines {
	return &JSONLines{newJSONEncoder(&d, &Options{MoreJSON: more})}
}

// Append appends a packet's line and a newline.
func (l *JSONLines) Append(dst []byte, p *capture.Packet) []byte {
	l.e.look()
	l.e.prepare(p)
	return l.e.append(dst, p)
}
