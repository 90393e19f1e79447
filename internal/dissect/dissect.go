// Package dissect writes a packet as the line that tcpdump -nS prints for it, so that eyes and
// scripts used to tcpdump find what they look for. Sequence numbers are absolute, as with -S:
// relative ones need the state of every flow, and a sample of the packets rarely has a flow's SYN.
//
// gopacket decodes, and this package formats what it found, as far as TCP, UDP and ICMP. These
// differ from tcpdump on purpose: VLAN tags are shown without -e, because at the XDP hook they are
// part of the packet; what has no format here becomes a number and a length, never a hex dump; a
// header that gopacket gives up on becomes its mark, like [|tcp], also where tcpdump shows some of
// its fields; and -v adds the fields of the IP header alone.
package dissect

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Options say what of a packet is printed. The zero value is what tcpdump prints without flags.
type Options struct {
	Verbose   int        // -v: 1 to 3
	Quiet     bool       // -q: less about protocols
	LinkLevel bool       // -e: the Ethernet header
	Number    bool       // -#: the number of the line's packet, from 1 on
	Lengths   bool       // --lengths: how many bytes were kept, and how many there were
	Time      TimeFormat // -t

	Dump          Dump // -x, -X, -A: the bytes of the packet
	DumpLinkLevel bool // -xx, -XX, -AA: the bytes of its Ethernet header, too
}

// A Packet is what a line is about.
type Packet struct {
	Time    time.Time
	Data    []byte // from the Ethernet header on; it is only read, and not held on to
	WireLen int    // bytes before the packet was cut to Data
	Origin  []byte // printed behind the time, with a space after it; nothing of it if it is empty
}

// A Dissector turns packets into lines. It belongs to one goroutine.
type Dissector struct {
	o      Options
	stamps stamps
	count  uint64 // packets so far
	line   []byte // the caller's bytes, and behind them the packet's line so far

	rest      []gopacket.Layer // layers of the packet that are not in the line yet
	want      string           // the header that comes next, by its mark; "" ends the line
	truncated bool             // bytes of the packet are missing
	frame     int              // bytes of the frame on the wire
	length    int              // bytes of the packet on the wire, from the next header on
	net       network          // the last IP header
}

// New returns a Dissector.
func New(o Options) *Dissector { return &Dissector{o: o, stamps: stamps{format: o.Time}} }

// AppendLine appends the packet's line to dst, with the newline at its end, and returns the longer
// slice. Verbosity and dumps put a packet onto several lines.
func (d *Dissector) AppendLine(dst []byte, p Packet) []byte {
	d.line = dst
	d.count++
	if d.o.Number {
		d.addf("%5d  ", d.count)
	}
	if d.o.Lengths {
		d.addf("caplen %d, len %d, ", len(p.Data), p.WireLen)
	}
	d.line = d.stamps.append(d.line, p.Time)
	if len(p.Origin) > 0 {
		d.line = append(append(d.line, p.Origin...), ' ')
	}
	d.packet(p.Data, max(p.WireLen, len(p.Data)))
	d.dump(p.Data)
	line := append(d.line, '\n')
	d.line, d.rest = nil, nil // the line is the caller's, and the layers are garbage
	return line
}

// dump appends the bytes of the packet.
func (d *Dissector) dump(data []byte) {
	if !d.o.DumpLinkLevel {
		data = data[min(14, len(data)):]
	}
	switch {
	case len(data) == 0:
	case d.o.Dump == HexDump, d.o.Dump == HexASCIIDump:
		d.line = appendHex(d.line, data, d.o.Dump == HexASCIIDump)
	case d.o.Dump == ASCIIDump:
		d.line = appendASCII(d.line, data)
	}
}

// packet appends what the headers say.
func (d *Dissector) packet(data []byte, wireLen int) {
	d.truncated = wireLen > len(data) || len(data) < 14
	d.decode(layers.LayerTypeEthernet, data)
	d.length, d.net = wireLen, network{named: true}
	for want := "ether"; want != ""; want = d.want {
		d.want = ""
		if !d.layer() {
			d.mark(want)
			break
		}
	}
}

// decode makes the layers of data the ones that go into the line next. gopacket gets a copy: data
// may be memory that is mapped for reading only, where a store would end the program, and gopacket
// does not promise that its decoders store nothing.
func (d *Dissector) decode(first gopacket.LayerType, data []byte) {
	packet := gopacket.NewPacket(data, first, gopacket.Default)
	d.rest, d.truncated = packet.Layers(), d.truncated || packet.Metadata().Truncated
}

func (d *Dissector) add(s string) { d.line = append(d.line, s...) }

// name appends the name of a protocol, which -e has already shown as the EtherType.
func (d *Dissector) name(s string) {
	if !d.o.LinkLevel {
		d.add(s)
	}
}

func (d *Dissector) addf(format string, a ...any) { d.line = fmt.Appendf(d.line, format, a...) }

// mark ends the line at a header that could not be decoded. Where bytes of the packet are missing
// it is tcpdump's own mark, such as [|tcp]; a header that is wrong or unknown becomes [odd tcp].
func (d *Dissector) mark(header string) {
	d.hosts()
	why := "odd "
	if d.truncated {
		why = "|"
	}
	d.line = append(bytes.TrimRight(d.line, " "), " ["+why+header+"]"...)
}

// layer appends the next layer and sets what comes after it. It is false where gopacket could not
// decode the header: then a layer is missing, is a DecodeFailure, or has fields that are empty.
func (d *Dissector) layer() bool {
	if len(d.rest) == 0 {
		return false
	}
	l := d.rest[0]
	d.rest = d.rest[1:]
	switch l := l.(type) {
	case *layers.Ethernet:
		d.frame = d.length
		if d.o.LinkLevel {
			d.addf("%s > %s, ethertype %s (0x%04x), length %d: ", l.SrcMAC, l.DstMAC,
				cmp.Or(etherNames[l.EthernetType], "Unknown"), uint16(l.EthernetType), d.frame)
		}
		d.etherType(l.EthernetType, d.length-14)
	case *layers.Dot1Q:
		d.addf("vlan %d, p %d, ", l.VLANIdentifier, l.Priority)
		if l.DropEligible {
			d.add("DEI, ")
		}
		d.etherType(l.Type, d.length-4)
	case *layers.MPLS:
		d.addf("MPLS (label %d, tc %d, ttl %d) ", l.Label, l.TrafficClass, l.TTL)
		d.length, d.want = d.length-4, "mpls"
	case *layers.PPPoE:
		d.addf("PPPoE  [ses 0x%x] ", l.SessionId)
		d.length, d.want = int(l.Length), "ppp"
	case *layers.PPP:
		d.length, d.want = d.length-len(l.Contents), "ppp"
	case *layers.ARP:
		return d.arp(l)
	case *layers.IPv4:
		return d.ip4(l)
	case *layers.IPv6:
		return d.ip6(l)
	case *layers.IPv6HopByHop:
		return d.ip6Extension("HBH ", l.Contents, l.NextHeader)
	case *layers.IPv6Destination:
		return d.ip6Extension("DSTOPT ", l.Contents, l.NextHeader)
	case *layers.IPv6Routing:
		return d.ip6Extension(fmt.Sprintf("RT6 (type=%d, segleft=%d) ", l.RoutingType, l.SegmentsLeft), l.Contents, l.NextHeader)
	case *layers.IPv6Fragment:
		d.ip6Fragment(l)
	case *layers.GRE:
		d.addf("GREv%d, length %d: ", l.Version, d.length)
		d.frame = d.length - len(l.Contents)
		d.etherType(l.Protocol, d.frame)
	case *layers.TCP:
		return d.tcp(l)
	case *layers.UDP:
		return d.udp(l)
	case *layers.ICMPv4:
		return d.icmp(l)
	case *layers.ICMPv6:
		return d.icmp6(l)
	default:
		return d.icmp6Message(l)
	}
	return true
}

var etherMarks = map[layers.EthernetType]string{
	layers.EthernetTypeIPv4: "ip", layers.EthernetTypeIPv6: "ip6", layers.EthernetTypeARP: "arp",
	layers.EthernetTypeDot1Q: "vlan", layers.EthernetTypeQinQ: "vlan", layers.EthernetTypePPPoESession: "pppoe",
	layers.EthernetTypeMPLSUnicast: "mpls", layers.EthernetTypeMPLSMulticast: "mpls",
	layers.EthernetTypeTransparentEthernetBridging: "ether",
}

// etherType says that length bytes of EtherType t come next. A type without a format of its own
// ends the line.
func (d *Dissector) etherType(t layers.EthernetType, length int) {
	d.length, d.want = length, etherMarks[t]
	if t < 0x600 {
		d.addf("802.3, length %d", d.frame)
	} else if d.want == "" {
		d.addf("ethertype 0x%04x, length %d", uint16(t), d.frame)
	}
}

func (d *Dissector) arp(a *layers.ARP) bool {
	if a.HwAddressSize != 6 || a.ProtAddressSize != 4 {
		return false
	}
	sender, target := net.HardwareAddr(a.SourceHwAddress), net.HardwareAddr(a.DstHwAddress)
	d.name("ARP, ")
	switch a.Operation {
	case layers.ARPRequest:
		d.addf("Request who-has %s", addr(a.DstProtAddress))
		if !bytes.Equal(target, make([]byte, 6)) {
			d.addf(" (%s)", target)
		}
		d.addf(" tell %s", addr(a.SourceProtAddress))
	case layers.ARPReply:
		d.addf("Reply %s is-at %s", addr(a.SourceProtAddress), sender)
	default:
		d.addf("Unknown (%d)", a.Operation)
	}
	d.addf(", length %d", d.length)
	return true
}

// addr is an address as tcpdump writes it. net.IP would leave the prefix of ::ffff:10.0.0.1 away.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
