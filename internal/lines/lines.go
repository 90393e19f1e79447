// Package lines makes a line of each packet: its text with its source, JSON, or a row of CSV. It
// does so for the packets of sessions and of files alike.
package lines

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// Format is the format of packets' lines of text.
type Format struct {
	dissect.Options
	Color        bool // colour verdicts
	NamesSources bool // each line has its packet's source, even if all have the same
}

// A Text formats the packets of some sources as lines of text. It belongs to one goroutine.
type Text struct {
	sources      *capture.SourceList
	labels       []string // of the sources
	namesSources bool     // lines have the label of their packet's source
	file         string   // of the first source of a file
	namesFiles   bool     // there are several files, which the labels name
	format       Format
	dissector    *dissect.Dissector
	origin       []byte // of the last packet

	outletName func(capture.Outlet) string // nil = no packet has an outlet
	causeNames func(source uint16, f *capture.Facts) (reason, location string)
}

// NewText returns a Text for packets of the sources in d.
func NewText(d *capture.Description, f Format) *Text {
	t := &Text{sources: capture.NewSourceList(d), format: f, dissector: dissect.New(f.Options), outletName: d.OutletName, causeNames: d.CauseNames}
	mayAddSources := d.IsLive() && d.More != nil
	t.namesSources = f.NamesSources || mayAddSources
	for i := range d.Sources {
		t.add(i)
	}
	return t
}

// add adds a source.
func (t *Text) add(source int) {
	s := t.sources.Of(source)
	t.file = cmp.Or(t.file, s.File)
	for len(t.labels) <= source {
		t.labels = append(t.labels, "")
	}
	if !t.namesFiles && s.File != t.file {
		t.namesFiles = true // earlier sources get new labels
		for i := range source {
			t.labels[i] = t.label(t.sources.Of(i))
		}
	}
	t.labels[source] = t.label(s)
	t.namesSources = t.namesSources || t.labels[source] != t.labels[0]
}

func (t *Text) label(s *capture.Source) string {
	label := Label(s)
	if strings.HasPrefix(label, s.File+":") { // it names the file, or the host, already
		return message.Escape(label)
	}
	if t.namesFiles && s.Name != "" {
		label = s.File + ":" + label
	} else if t.namesFiles { // the label begins with the last part of the file's path
		label = s.File + strings.TrimPrefix(label, filepath.Base(s.File))
	}
	return message.Escape(label)
}

// AddSources adds new sources. Call it before appending packets.
func (t *Text) AddSources() {
	for _, source := range t.sources.Update() {
		t.add(source)
	}
}

// Label returns the name of a source in lines: eth0, eth0@egress, eth0:program@exit, or the hook
// map's path. The pod of an interface follows: veth0(default/web).
func Label(s *capture.Source) string {
	label := s.Label()
	if s.Hook.Traces() {
		label = s.Name + ":" + s.Target.Name + "@" + s.Hook.String()
	}
	if pod := s.Pod.String(); pod != "" {
		label += "(" + pod + ")"
	}
	return label
}

// Append appends a packet's line to dst, with the newline at its end.
func (t *Text) Append(dst []byte, p *capture.Packet) []byte {
	t.origin = t.AppendOrigin(t.origin[:0], p)
	return t.appendPlain(dst, p, t.origin)
}

// appendPlain appends a packet's line with this origin.
func (t *Text) appendPlain(dst []byte, p *capture.Packet, origin []byte) []byte {
	line := dissect.Packet{Time: time.Unix(0, p.Stamp()), Untimed: !p.HasTime(), Data: p.Data, WireLen: int(p.WireLen), Origin: origin}
	typ := t.sources.Of(int(p.Source)).LinkType()
	if line.Link = headers.LinkToDecode(typ); line.Link == headers.UnknownLink {
		line.LinkName = pcapng.LinkTypeName(typ)
	}
	return t.dissector.AppendLine(dst, line)
}

// Place returns the source of a packet as its line names it.
func (t *Text) Place(p *capture.Packet) string { return t.labels[p.Source] }

// AppendOrigin appends the part of a packet's line between the time and the headers: its source
// and verdict, and the reason, location and device of a drop. It omits facts that are the same for
// all packets. With -v it appends all other facts: outlet, receive queue, packet id, hash, packets
// lost before this one, weight, GSO size, and the run time of the traced program.
func (t *Text) AppendOrigin(b []byte, p *capture.Packet) []byte {
	s := t.sources.Of(int(p.Source))
	verdict, kind, hasVerdict := s.ReturnOf(p)
	reason, location := t.causeNames(p.Source, p.Facts)
	if t.namesSources || hasVerdict || reason != "" {
		b = append(b, t.labels[p.Source]...)
	}
	if hasVerdict {
		name, code := verdictName(kind, verdict)
		if p.To != 0 && t.format.Verbose > 0 && t.outletName != nil {
			name += " to " + message.Escape(t.outletName(p.To))
		}
		if reason != "" && location == "" {
			name += " " + message.Escape(reason)
		}
		if t.format.Color && code != "" {
			b = fmt.Appendf(b, "\x1b[%sm[%s]\x1b[0m", code, name)
		} else {
			b = fmt.Appendf(b, "[%s]", name)
		}
	}
	if location != "" {
		b = fmt.Appendf(b, "[%s %s", message.Escape(reason), message.Escape(location))
		if p.Device() != 0 && t.outletName != nil {
			b = fmt.Append(b, " at ", message.Escape(t.outletName(p.Device())))
		}
		b = append(b, ']')
	}
	if t.format.Verbose == 0 {
		return b
	}
	before, start := " (", len(b)
	if start == 0 {
		before = "("
	}
	add := func(known bool, format string, n uint64) {
		if known {
			b = fmt.Appendf(append(b, before...), format, n)
			before = ", "
		}
	}
	queue, hasQueue := s.QueueOf(p)
	id, hasID := s.IDOf(p)
	add(hasQueue, "queue %d", uint64(queue))
	add(hasID, "id %d", id)
	bySoftware := p.HashKind == capture.SoftwareHash
	add(p.HashKind != capture.NoHash && !bySoftware, "hash 0x%08x", uint64(p.Hash))
	add(bySoftware, "hash 0x%08x by software", uint64(p.Hash))
	add(p.Dropped > 0, "%d lost before", p.Dropped)
	add(p.Weight > 1, "weight %d", uint64(p.Weight))
	add(p.GSOSize > 0, "GSO size %d", uint64(p.GSOSize))
	add(p.RunTime > 0, "ran %d ns", uint64(p.RunTime))
	if len(b) > start {
		b = append(b, ')')
	}
	return b
}

// verdictName returns a verdict as lines show it, and its colour. A plain number is the value that
// a traced function has returned.
func verdictName(kind capture.VerdictKind, v capture.Verdict) (name, color string) {
	name = strings.ToUpper(kind.NameOf(v))
	switch {
	case kind == capture.PlainNumber:
		return "returned " + name, ""
	case kind == capture.TCVerdict && kind.Discards(v):
		return name, verdictColors[capture.Drop]
	case kind == capture.TCVerdict:
		return name, ""
	}
	return name, verdictColors[v]
}

// verdictColors are the colours of the verdicts, as ECMA-48 numbers them.
var verdictColors = map[capture.Verdict]string{
	capture.Aborted:  "1;31", // bold red
	capture.Drop:     "31",   // red
	capture.Pass:     "32",   // green
	capture.Tx:       "36",   // cyan
	capture.Redirect: "34",   // blue
}
