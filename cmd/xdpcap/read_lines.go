package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// stdoutLines collects what is printed to standard output, and hands it over in whole lines.
type stdoutLines struct {
	out   io.Writer
	lines []byte
	err   error // the first one
}

// more hands over the lines if they are many.
func (l *stdoutLines) more() error {
	if len(l.lines) < printSize {
		return l.err
	}
	return l.flush()
}

func (l *stdoutLines) flush() error {
	if len(l.lines) == 0 || l.err != nil {
		return l.err
	}
	n, err := l.out.Write(l.lines)
	written.printed.Add(int64(n))
	l.lines = l.lines[:0]
	l.err = explainPrint(err)
	return l.err
}

// readLines prints a line for each packet.
type readLines struct {
	stdoutLines
	labels    readLabels
	format    lineFormat
	dissector *dissect.Dissector
	origin    []byte // of the last packet
	other     map[uint16]uint64
}

func newReadLines(out *stdoutLines, f lineFormat) *readLines {
	return &readLines{stdoutLines: *out, format: f, dissector: dissect.New(f.Options), other: make(map[uint16]uint64)}
}

func (l *readLines) take(b *capfile.Block) error {
	switch b.Kind {
	case capfile.Described:
		l.labels.add(b.Interface)
	case capfile.Packet:
		l.append(b)
	}
	return l.more()
}

func (l *readLines) append(b *capfile.Block) {
	o := packetOrigin{
		queue: b.Packet.Queue, verdict: capture.Verdict(b.Packet.Verdict), id: b.Packet.ID, dropped: b.Packet.Dropped, hash: b.Packet.Hash, known: b.Packet.Fields,
		weight: b.Packet.Weight, gsoSize: int(b.Packet.GSOSize),
	}
	if l.labels.several || o.known&pcapng.HasVerdict != 0 {
		o.label = l.labels.of(b.Interface).text
	}
	if l.format.Verbose > 0 {
		o.to = string(b.Packet.Outlet)
	}
	l.origin = l.format.appendOrigin(l.origin[:0], &o)
	if !isEthernet(b.Interface) {
		l.other[b.Interface.LinkType]++
	}
	l.lines = l.dissector.AppendLine(l.lines, dissectPacket(b, l.origin))
}

// dissectPacket is a packet of a file as package dissect takes it.
func dissectPacket(b *capfile.Block, origin []byte) dissect.Packet {
	p := dissect.Packet{Time: time.Unix(0, b.Time), Data: b.Packet.Data, WireLen: int(b.Packet.WireLen), Origin: origin}
	if !isEthernet(b.Interface) {
		p.LinkLayer = linkTypeName(b.Interface.LinkType)
	}
	return p
}

func (l *readLines) end() error { return l.flush() }
func (l *readLines) abort()     {}

func (l *readLines) notices() []string { return notDecoded(l.other) }

// notDecoded says which packets were not decoded.
func notDecoded(other map[uint16]uint64) (all []string) {
	for _, typ := range sortedKeys(other) {
		all = append(all, fmt.Sprintf("did not decode %s of %s: xdpcap decodes Ethernet", packets(other[typ]), linkTypeName(typ)))
	}
	return all
}

// A readLabel says where packets of an interface come from, in the parts that its name has.
type readLabel struct {
	text                string // as lines have it, printable
	name, hook, program string // "" = there is none
}

// readLabels are those of the interfaces of all files.
type readLabels struct {
	by      map[*capfile.Interface]readLabel
	several bool // there are different ones
	first   string
}

func (l *readLabels) add(i *capfile.Interface) {
	if l.by == nil {
		l.by = make(map[*capfile.Interface]readLabel)
	}
	label := newReadLabel(i)
	if len(l.by) == 0 {
		l.first = label.text
	}
	l.several = l.several || label.text != l.first
	l.by[i] = label
}

func (l *readLabels) of(i *capfile.Interface) readLabel { return l.by[i] }

// newReadLabel takes the name of an interface apart, which capture.Source.Label has put together:
// eth0, eth0@egress, or eth0:program@fentry. One without a name is called by its file.
func newReadLabel(i *capfile.Interface) readLabel {
	name := i.Name
	if name == "" {
		name = filepath.Base(i.File.Name)
		if i.Index > 0 {
			name = fmt.Sprintf("%s#%d", name, i.Index)
		}
		return readLabel{text: printable(name)}
	}
	label := readLabel{text: printable(name), name: name}
	if rest, ok := strings.CutSuffix(name, "@"+capture.Egress.String()); ok {
		label.name, label.hook = rest, capture.Egress.String()
	}
	for _, hook := range []capture.Hook{capture.Entry, capture.Exit} {
		if rest, ok := strings.CutSuffix(name, "@f"+hook.String()); ok {
			colon := strings.LastIndexByte(rest, ':')
			if colon < 0 {
				break
			}
			label = readLabel{text: printable(rest + "@" + hook.String()), name: rest[:colon], program: rest[colon+1:], hook: hook.String()}
		}
	}
	return label
}

// linkTypeNames are tcpdump's names of the commonest link types.
var linkTypeNames = map[uint16]string{
	0: "NULL", 1: "EN10MB", 6: "IEEE802", 9: "PPP", 10: "FDDI", 12: "RAW", 14: "RAW", 50: "PPP_SERIAL", 51: "PPP_ETHER", 100: "ATM_RFC1483",
	101: "RAW", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 108: "LOOP", 113: "LINUX_SLL", 114: "LTALK", 117: "PFLOG", 119: "PRISM_HEADER",
	122: "IP_OVER_FC", 127: "IEEE802_11_RADIO", 129: "LINUX_IRDA", 138: "APPLE_IP_OVER_IEEE1394", 140: "MTP2", 141: "MTP3", 142: "SCCP",
	143: "DOCSIS", 177: "LINUX_LAPD", 187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4", 201: "BLUETOOTH_HCI_H4_WITH_PHDR",
	220: "USB_LINUX_MMAPPED", 224: "FC_2", 226: "IPNET", 227: "CAN_SOCKETCAN", 228: "IPV4", 229: "IPV6", 239: "NFLOG", 242: "INFINIBAND",
	243: "SCTP", 249: "USBPCAP", 253: "NETLINK", 254: "BLUETOOTH_LINUX_MONITOR", 276: "LINUX_SLL2",
}

// linkTypeName names a link type by tcpdump's name, and by its number.
func linkTypeName(typ uint16) string {
	if name, ok := linkTypeNames[typ]; ok {
		return fmt.Sprintf("link type %s (%d)", name, typ)
	}
	return fmt.Sprintf("link type %d", typ)
}
