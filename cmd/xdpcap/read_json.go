package main

import (
	"io"
	"os"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/jsonline"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// A jsonCopy makes of packets of files the lines that a capture makes of them with --format json.
// Keys that a file does not have are missing.
type jsonCopy struct {
	encoder *jsonline.Encoder
	sources map[jsonSource]int
	line    jsonline.Packet
	other   map[uint16]uint64 // packets by link type that have only their lengths in their lines
}

// A jsonSource is what packets of an interface have in common that have the same keys. A file says
// it of each packet.
type jsonSource struct {
	from      *capfile.Interface
	direction uint32
	known     pcapng.Fields
}

// maxJSONSources is how many sources are remembered: a file may have any number.
const maxJSONSources = 1024

func newJSONCopy() *jsonCopy {
	return &jsonCopy{encoder: jsonline.NewEncoder(nil), sources: make(map[jsonSource]int), other: make(map[uint16]uint64)}
}

func (c *jsonCopy) header(b []byte) []byte { return b }
func (c *jsonCopy) end(b []byte) []byte    { return b }
func (c *jsonCopy) notices() []string      { return notDecoded(c.other) }

func (c *jsonCopy) block(b []byte, from *capfile.Block) ([]byte, error) {
	if from.Kind != capfile.Packet {
		return b, nil
	}
	p := &from.Packet
	c.line = jsonline.Packet{
		Source: c.source(from), Time: from.Time, Data: p.Data, WireLen: int(p.WireLen), Queue: p.Queue, ID: p.ID, Dropped: p.Dropped,
		Weight: p.Weight, GSOSize: int(p.GSOSize), SetBack: p.SetBack,
	}
	if p.Fields&pcapng.HasHash != 0 {
		c.line.Hash, c.line.HashBy = p.Hash, capture.ToeplitzHash.String()
	}
	if p.Fields&pcapng.HasVerdict != 0 {
		c.line.Verdict, c.line.To = capture.Verdict(p.Verdict).String(), string(p.Outlet)
	}
	if !isEthernet(from.Interface) {
		c.other[from.Interface.LinkType]++
	}
	return c.encoder.Append(b, &c.line), nil
}

// source returns the place of a packet's source among those of the encoder.
func (c *jsonCopy) source(b *capfile.Block) int {
	const fields = pcapng.HasQueue | pcapng.HasID | pcapng.HasVerdict
	key := jsonSource{b.Interface, b.Packet.Flags & pcapng.DirectionMask, b.Packet.Fields & fields}
	if place, ok := c.sources[key]; ok {
		return place
	}
	label := newReadLabel(b.Interface)
	s := jsonline.Source{
		Interface: label.name, Hook: label.hook, Program: label.program,
		NoQueue: key.known&pcapng.HasQueue == 0, NoID: key.known&pcapng.HasID == 0, NoEthernet: !isEthernet(b.Interface),
	}
	switch key.direction {
	case pcapng.Inbound:
		s.Direction = capture.In.String()
	case pcapng.Outbound:
		s.Direction = capture.Out.String()
	}
	if s.Hook == "" && !s.NoQueue { // receive queues are known at these hooks alone
		s.Hook = capture.XDP.String()
		if key.known&pcapng.HasVerdict != 0 {
			s.Hook = capture.TailCall.String()
		}
	}
	if len(c.sources) == maxJSONSources {
		clear(c.sources)
		c.encoder = jsonline.NewEncoder(nil)
	}
	place := c.encoder.Add(s)
	c.sources[key] = place
	return place
}

// readJSONLines prints lines of JSON to standard output.
type readJSONLines struct {
	stdoutLines
	*jsonCopy
}

func newReadJSONLines(out io.Writer) *readJSONLines {
	if info, err := os.Stdout.Stat(); err == nil && !info.Mode().IsRegular() {
		out = jsonline.PipeWriter{Out: out}
	}
	return &readJSONLines{stdoutLines{out: out}, newJSONCopy()}
}

func (l *readJSONLines) take(b *capfile.Block) (err error) {
	if l.lines, err = l.block(l.lines, b); err != nil {
		return err
	}
	return l.more()
}

func (l *readJSONLines) end() error { return l.flush() }
func (l *readJSONLines) abort()     {}
