package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
)

// lineFormat is how the lines of packets look.
type lineFormat struct {
	dissect.Options
	color bool // colour verdicts
}

// packetLines turns packets of some sources into lines, wherever packets and sources come from.
type packetLines struct {
	sources   []capture.Source
	labels    []string // of the sources; all "" where a packet's origin is evident
	format    lineFormat
	dissector *dissect.Dissector
	origin    []byte // of the last packet
}

func newPacketLines(sources []capture.Source, f lineFormat) *packetLines {
	l := &packetLines{sources: sources, labels: make([]string, len(sources)), format: f, dissector: dissect.New(f.Options)}
	if len(sources) > 1 || sources[0].HasVerdict() {
		for i := range sources {
			l.labels[i] = printable(originLabel(&sources[i]))
		}
	}
	return l
}

// originLabel names a source as lines do: eth0, eth0:program@exit, or the hook map's path.
func originLabel(s *capture.Source) string {
	if s.Hook == capture.XDP || s.Hook == capture.TailCall {
		return s.Name
	}
	return s.Name + ":" + s.Target.Name + "@" + s.Hook.String()
}

// append appends a packet's line to dst, with the newline at its end.
func (l *packetLines) append(dst []byte, p *capture.Packet) []byte {
	l.origin = l.appendOrigin(l.origin[:0], p)
	return l.dissector.AppendLine(dst, dissect.Packet{
		Time:    time.Unix(0, p.Time),
		Data:    p.Data,
		WireLen: p.WireLen,
		Origin:  l.origin,
	})
}

// appendOrigin says where a packet comes from, as far as that is not evident: source and verdict.
// With -v it says what else is known: receive queue, packet id and what was lost before the packet.
func (l *packetLines) appendOrigin(b []byte, p *capture.Packet) []byte {
	b = append(b, l.labels[p.Source]...)
	if l.sources[p.Source].HasVerdict() {
		name, code := strings.ToUpper(p.Verdict.String()), verdictColors[p.Verdict]
		if l.format.color && code != "" {
			b = fmt.Appendf(b, "\x1b[%sm[%s]\x1b[0m", code, name)
		} else {
			b = fmt.Appendf(b, "[%s]", name)
		}
	}
	if l.format.Verbose == 0 {
		return b
	}
	if len(b) > 0 {
		b = append(b, ' ')
	}
	b = fmt.Appendf(b, "(queue %d, id %d", p.Queue, p.ID)
	if p.Dropped > 0 {
		b = fmt.Appendf(b, ", %d lost before", p.Dropped)
	}
	return append(b, ')')
}

// verdictColors are the colours of the verdicts, as ECMA-48 numbers them.
var verdictColors = map[capture.Verdict]string{
	capture.Aborted:  "1;31", // bold red
	capture.Drop:     "31",   // red
	capture.Pass:     "32",   // green
	capture.Tx:       "36",   // cyan
	capture.Redirect: "34",   // blue
}
