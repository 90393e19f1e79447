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

// Format is the format of packets' lines.
type Format struct {
	dissect.Options
	Color bool // colour verdicts
}

// packetLines formats the packets of some sources as lines.
type packetLines struct {
	sources   *capture.SourceList
	labels    []string // of the sources
	several   bool     // the labels differ
	file      string   // of the first source of a file
	files     bool     // there are several files, which the labels name
	format    Format
	dissector *dissect.Dissector
	origin    []byte // of the last packet

	outletName func(capture.Outlet) string // nil = no packet has an outlet
	causeNames func(source uint16, f *capture.Facts) (reason, location string)
}

func newPacketLines(d *capture.Description, f Format) *packetLines {
	l := &packetLines{sources: capture.NewSourceList(d), format: f, dissector: dissect.New(f.Options), outletName: d.OutletName, causeNames: d.CauseNames}
	l.several = d.IsLive() && d.More != nil // sources may be added
	for i := range d.Sources {
		l.add(i)
	}
	return l
}

// add adds a source.
func (l *packetLines) add(source int) {
	s := l.sources.Of(source)
	l.file = cmp.Or(l.file, s.File)
	for len(l.labels) <= source {
		l.labels = append(l.labels, "")
	}
	if !l.files && s.File != l.file {
		l.files = true // earlier sources get new labels
		for i := range source {
			l.labels[i] = l.label(l.sources.Of(i))
		}
	}
	l.labels[source] = l.label(s)
	l.several = l.several || l.labels[source] != l.labels[0]
}

func (l *packetLines) label(s *capture.Source) string {
	label := Label(s)
	if strings.HasPrefix(label, s.File+":") { // it names the file, or the host, already
		return message.Escape(label)
	}
	if l.files && s.Name != "" {
		label = s.File + ":" + label
	} else if l.files { // the label begins with the last part of the file's path
		label = s.File + strings.TrimPrefix(label, filepath.Base(s.File))
	}
	return message.Escape(label)
}

// addSources adds new sources. It is called before packets are appended.
func (l *packetLines) addSources() {
	for _, source := range l.sources.Look() {
		l.add(source)
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

// append appends a packet's line to dst, with the newline at its end.
func (l *packetLines) append(dst []byte, p *capture.Packet) []byte {
	l.origin = l.appendOrigin(l.origin[:0], p)
	return l.appendPlain(dst, p, l.origin)
}

// appendPlain appends a packet's line with this origin.
func (l *packetLines) appendPlain(dst []byte, p *capture.Packet, origin []byte) []byte {
	line := dissect.Packet{Time: time.Unix(0, p.Stamp()), Untimed: !p.HasTime(), Data: p.Data, WireLen: int(p.WireLen), Origin: origin}
	typ := l.sources.Of(int(p.Source)).LinkType()
	if line.Link = headers.LinkToDecode(typ); line.Link == headers.UnknownLink {
		line.LinkName = pcapng.LinkTypeName(typ)
	}
	return l.dissector.AppendLine(dst, line)
}

// appendOrigin appends a packet's source and verdict, and the reason, location and device of a
// drop. It omits facts that are the same for all packets. With -v it appends all other facts:
// outlet, receive queue, packet id, hash, packets lost before this one, weight, GSO size, and the
// run time of the traced program.
func (l *packetLines) appendOrigin(b []byte, p *capture.Packet) []byte {
	s := l.sources.Of(int(p.Source))
	verdict, kind, decided := s.ReturnOf(p)
	reason, location := l.causeNames(p.Source, p.Facts)
	if l.several || decided || reason != "" {
		b = append(b, l.labels[p.Source]...)
	}
	if decided {
		name, code := verdictName(kind, verdict)
		if p.To != 0 && l.format.Verbose > 0 && l.outletName != nil {
			name += " to " + message.Escape(l.outletName(p.To))
		}
		if reason != "" && location == "" {
			name += " " + message.Escape(reason)
		}
		if l.format.Color && code != "" {
			b = fmt.Appendf(b, "\x1b[%sm[%s]\x1b[0m", code, name)
		} else {
			b = fmt.Appendf(b, "[%s]", name)
		}
	}
	if location != "" {
		b = fmt.Appendf(b, "[%s %s", message.Escape(reason), message.Escape(location))
		if p.Device() != 0 && l.outletName != nil {
			b = fmt.Append(b, " at ", message.Escape(l.outletName(p.Device())))
		}
		b = append(b, ']')
	}
	if l.format.Verbose == 0 {
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

// verdictName is a verdict as lines show it, and its colour. A number that is no verdict is what a
// function has returned.
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
