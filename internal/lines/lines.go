// Package lines prints a packet as a line, with where it comes from, wherever that is: a session or
// files.
package lines

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/link"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// Format is how the lines of packets look.
type Format struct {
	dissect.Options
	Color bool // colour verdicts
}

// packetLines turns packets of some sources into lines, wherever packets and sources come from.
type packetLines struct {
	sources   *capture.SourceList
	labels    []string // of the sources
	several   bool     // there are different ones
	file      string   // of the first source of a file
	files     bool     // there are several, which the labels name
	format    Format
	dissector *dissect.Dissector
	origin    []byte // of the last packet

	outletName func(capture.Outlet) string // nil = no packet has one
	causeNames func(*capture.Facts) (reason, location string)
}

func newPacketLines(d *capture.Description, f Format) *packetLines {
	l := &packetLines{sources: capture.NewSourceList(d), format: f, dissector: dissect.New(f.Options), outletName: d.OutletName, causeNames: d.CauseNames}
	l.several = d.IsLive() && d.More != nil // others may come
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
		l.files = true // those that were known get new ones
		for i := range source {
			l.labels[i] = l.label(l.sources.Of(i))
		}
	}
	l.labels[source] = l.label(s)
	l.several = l.several || l.labels[source] != l.labels[0]
}

func (l *packetLines) label(s *capture.Source) string {
	label := Label(s)
	if l.files && s.Name != "" {
		label = s.File + ":" + label
	} else if l.files { // the label has the last part of the file's path
		label = s.File + strings.TrimPrefix(label, filepath.Base(s.File))
	}
	return escape.Text(label)
}

// look adds the sources that there are by now. It is called before packets are appended.
func (l *packetLines) look() {
	for _, source := range l.sources.Look() {
		l.add(source)
	}
}

// Label names a source as lines do: eth0, eth0@egress, eth0:program@exit, or the hook map's
// path. The pod of an interface follows: veth0(default/web).
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
func (l *packetLines) append(dst []byte, p *capture.Packet) []byte {
	l.origin = l.appendFrom(l.origin[:0], p)
	return l.appendPlain(dst, p, l.origin)
}

// appendFrom appends where a packet comes from, as far as that is not evident, and what is known of
// it there.
func (l *packetLines) appendFrom(dst []byte, p *capture.Packet) []byte {
	s := l.sources.Of(int(p.Source))
	o := packetOrigin{queue: p.Queue, id: p.ID, dropped: p.Dropped, gsoSize: int(p.GSOSize), runTime: p.RunTime, weight: p.Weight}
	if _, known := s.IDOf(p); known {
		o.known |= pcapng.HasID
	}
	if _, known := s.QueueOf(p); known {
		o.known |= pcapng.HasQueue
	}
	verdict, decided := s.VerdictOf(p)
	if decided {
		o.verdict, o.known = verdict, o.known|pcapng.HasVerdict
	}
	o.reason, o.location = l.causeNames(p.Facts)
	if l.several || decided || o.reason != "" {
		o.label = l.labels[p.Source]
	}
	if p.To != 0 && l.format.Verbose > 0 && l.outletName != nil {
		o.to = l.outletName(p.To)
	}
	if p.HashKind != capture.NoHash {
		o.hash, o.soft, o.known = p.Hash, p.HashKind == capture.SoftwareHash, o.known|pcapng.HasHash
	}
	return l.format.appendOrigin(dst, &o)
}

// appendPlain appends a packet's line with this origin.
func (l *packetLines) appendPlain(dst []byte, p *capture.Packet, origin []byte) []byte {
	line := dissect.Packet{Time: time.Unix(0, p.Stamp()), Untimed: !p.HasTime(), Data: p.Data, WireLen: int(p.WireLen), Origin: origin}
	typ := l.sources.Of(int(p.Source)).LinkType()
	if line.Link = link.ToDecode(typ); line.Link == link.Unknown {
		line.LinkName = pcapng.LinkTypeName(typ)
	}
	return l.dissector.AppendLine(dst, line)
}

// A packetOrigin is what a line may tell of where its packet comes from.
type packetOrigin struct {
	label       string // "" = it is evident
	queue       uint32
	verdict     capture.Verdict
	id, dropped uint64
	gsoSize     int    // 0 = it is no GSO packet, or that is not known
	runTime     uint32 // of the traced program, in ns; 0 = not known
	weight      uint32 // packets that it stands for; only for -v
	hash        uint32
	soft        bool          // the hash is software's
	reason      string        // why it was thrown away; "" = it was not, or the program does not say
	location    string        // the kernel's function that did so; "" = the program did
	known       pcapng.Fields // which of queue, id, verdict and hash
	to          string        // the interface that the verdict sends it out of, "" = not known; only for -v
}

// appendOrigin says where a packet comes from: its source and verdict, and why it was dropped, or
// why and where it was thrown away. It omits what is the same for all packets. With -v it says what
// else is known: where the verdict sends the packet, receive queue, packet id, what was lost before
// the packet, how many packets it stands for, how large the segments are that it is to be cut into,
// and how long the traced program ran.
func (f *Format) appendOrigin(b []byte, o *packetOrigin) []byte {
	b = append(b, o.label...)
	if o.known&pcapng.HasVerdict != 0 {
		name, code := strings.ToUpper(o.verdict.String()), verdictColors[o.verdict]
		if o.to != "" {
			name += " to " + escape.Text(o.to)
		}
		if o.reason != "" && o.location == "" {
			name += " " + escape.Text(o.reason)
		}
		if f.Color && code != "" {
			b = fmt.Appendf(b, "\x1b[%sm[%s]\x1b[0m", code, name)
		} else {
			b = fmt.Appendf(b, "[%s]", name)
		}
	}
	if o.location != "" {
		b = fmt.Appendf(b, "[%s %s]", escape.Text(o.reason), escape.Text(o.location))
	}
	if f.Verbose == 0 {
		return b
	}
	before, start := " (", len(b)
	if start == 0 {
		before = "("
	}
	add := func(format string, n uint64) {
		b = fmt.Appendf(append(b, before...), format, n)
		before = ", "
	}
	if o.known&pcapng.HasQueue != 0 {
		add("queue %d", uint64(o.queue))
	}
	if o.known&pcapng.HasID != 0 {
		add("id %d", o.id)
	}
	if o.known&pcapng.HasHash != 0 {
		add("hash 0x%08x", uint64(o.hash))
		if o.soft {
			b = append(b, " by software"...)
		}
	}
	if o.dropped > 0 {
		add("%d lost before", o.dropped)
	}
	if o.weight > 1 {
		add("weight %d", uint64(o.weight))
	}
	if o.gsoSize > 0 {
		add("GSO size %d", uint64(o.gsoSize))
	}
	if o.runTime > 0 {
		add("ran %d ns", uint64(o.runTime))
	}
	if len(b) > start {
		b = append(b, ')')
	}
	return b
}

// verdictColors are the colours of the verdicts, as ECMA-48 numbers them.
var verdictColors = map[capture.Verdict]string{
	capture.Aborted:  "1;31", // bold red
	capture.Drop:     "31",   // red
	capture.Pass:     "32",   // green
	capture.Tx:       "36",   // cyan
	capture.Redirect: "34",   // blue
}
