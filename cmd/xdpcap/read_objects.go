package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// readObjects prints an object for each packet.
type readObjects struct {
	readLines
	files bool // name the file of each packet
	n     uint64
	text  []byte
	out   *json.Encoder
}

func newReadObjects(out *stdoutLines, f lineFormat, files bool) *readObjects {
	f.Number, f.Time = false, dissect.NoTime
	o := &readObjects{readLines: *newReadLines(out, f), files: files}
	o.out = json.NewEncoder(lineBuffer{&o.lines})
	o.out.SetEscapeHTML(false)
	return o
}

// A lineBuffer appends to lines.
type lineBuffer struct{ lines *[]byte }

func (b lineBuffer) Write(text []byte) (int, error) {
	*b.lines = append(*b.lines, text...)
	return len(text), nil
}

// packetKeys is a packet as read --json prints it.
type packetKeys struct {
	Number    uint64    `json:"number"` // of those that match, from 1 on
	Time      time.Time `json:"time"`
	File      string    `json:"file,omitempty"`      // where several are read
	Interface string    `json:"interface,omitempty"` // where the file names it
	Hook      string    `json:"hook,omitempty"`      // entry, exit or egress
	Program   string    `json:"program,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
	To        string    `json:"to,omitempty"` // the interface that the verdict sends it out of
	Queue     *uint32   `json:"queue,omitempty"`
	ID        *uint64   `json:"id,omitempty"`
	Hash      string    `json:"hash,omitempty"` // the card's
	Lost      uint64    `json:"lost_before,omitempty"`
	Length    uint32    `json:"length"` // bytes it had
	Captured  int       `json:"captured"`
	Weight    uint32    `json:"weight,omitempty"`    // packets that it stands for, unless it is one
	LinkType  *uint16   `json:"link_type,omitempty"` // what is no Ethernet
	flowKeys
	Comments []string `json:"comments,omitempty"`
	Line     string   `json:"line"` // as read prints it, without what the other keys have
}

func (o *readObjects) take(b *capfile.Block) error {
	switch b.Kind {
	case capfile.Described:
		o.labels.add(b.Interface)
		return nil
	case capfile.Packet:
	default:
		return nil
	}
	if err := o.out.Encode(o.keys(b)); err != nil {
		return err
	}
	return o.more()
}

func (o *readObjects) keys(b *capfile.Block) *packetKeys {
	o.n++
	p, label := &b.Packet, o.labels.of(b.Interface)
	k := &packetKeys{
		Number: o.n, Time: time.Unix(0, b.Time).UTC(), Interface: label.name, Hook: label.hook, Program: label.program,
		Lost: p.Dropped, Length: p.WireLen, Captured: len(p.Data),
	}
	if o.files {
		k.File = b.File.Name
	}
	if p.Fields&pcapng.HasVerdict != 0 {
		k.Verdict = capture.Verdict(p.Verdict).String()
		k.To = string(p.Outlet)
	}
	if p.Fields&pcapng.HasQueue != 0 {
		k.Queue = &p.Queue
	}
	if p.Fields&pcapng.HasID != 0 {
		k.ID = &p.ID
	}
	if p.Fields&pcapng.HasHash != 0 {
		k.Hash = fmt.Sprintf("0x%08x", p.Hash)
	}
	if p.Weight > 1 {
		k.Weight = p.Weight
	}
	if b.Raw.Raw != nil {
		k.Comments = b.Raw.Comments()
	}
	if !isEthernet(b.Interface) {
		k.LinkType = &b.Interface.LinkType
	} else if flow, ok := frameFlow(p.Data); ok {
		k.flowKeys = newFlowKeys(flow)
	}
	o.text = o.dissector.AppendLine(o.text[:0], dissectPacket(b, nil))
	k.Line = strings.TrimSpace(string(o.text))
	return k
}
