package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// network has the addresses of an IP header until the transport header tells the ports.
type network struct {
	src, dst netip.Addr
	named    bool // the addresses are already printed
}

// hosts prints the addresses, once.
func (p *printer) hosts() {
	if n := &p.net; !n.named {
		p.addf("%s > %s: ", n.src, n.dst)
		n.named = true
	}
}

// ports prints the addresses with ports, or after IPv6's extension headers the ports alone.
func (p *printer) ports(src, dst uint16) {
	if n := &p.net; n.named {
		p.addf("%d > %d: ", src, dst)
	} else {
		p.addf("%s.%d > %s.%d: ", n.src, src, n.dst, dst)
		n.named = true
	}
}

// protocols have tcpdump's name and the mark of those that have a format.
var protocols = map[layers.IPProtocol]struct{ name, mark string }{
	0: {"Options", "ip6"}, 1: {"ICMP", "icmp"}, 2: {"IGMP", ""}, 4: {"IPIP", "ip"}, 6: {"TCP", "tcp"}, 17: {"UDP", "udp"},
	41: {"IPv6", "ip6"}, 43: {"Routing", "ip6"}, 44: {"Fragment", "ip6"}, 47: {"GRE", "gre"}, 50: {"ESP", ""},
	51: {"AH", ""}, 58: {"ICMPv6", "icmp6"}, 60: {"unknown", "ip6"}, 88: {"EIGRP", ""}, 89: {"OSPF", ""}, 103: {"PIM", ""},
	112: {"VRRP", ""}, 132: {"SCTP", ""},
}

func protoName(proto layers.IPProtocol) string { return cmp.Or(protocols[proto].name, "unknown") }

// protocol goes on to length bytes of proto, or ends the line with it.
func (p *printer) protocol(proto layers.IPProtocol, length int) {
	known, ok := protocols[proto]
	p.length, p.want = length, known.mark
	if proto != layers.IPProtocolTCP && proto != layers.IPProtocolUDP {
		p.hosts()
	}
	switch {
	case proto == layers.IPProtocolNoNextHeader:
		p.add("no next header")
	case !ok:
		p.addf(" ip-proto-%d %d", proto, length)
	case p.want == "":
		p.addf("%s (%d), length %d", known.name, proto, length)
	}
}

func (p *printer) ip4(ip *layers.IPv4) bool {
	if ip.SrcIP == nil || ip.Version != 4 {
		return false
	}
	p.add("IP ")
	total := int(ip.Length)
	if total > p.length {
		p.addf("truncated-ip - %d bytes missing! ", total-p.length)
	}
	if p.verbosity > 0 {
		p.ip4Header(ip)
	}
	p.net = network{src: addr(ip.SrcIP), dst: addr(ip.DstIP)}
	if ip.FragOffset > 0 {
		p.hosts()
		p.addf("ip-proto-%d", ip.Protocol)
		return true
	}
	if ip.Flags&layers.IPv4MoreFragments != 0 {
		p.firstFragment(ip.Protocol, ip.Payload)
	}
	p.protocol(ip.Protocol, total-len(ip.Contents))
	return true
}

// ip4Header prints the fields that -v shows in front of a line of its own.
func (p *printer) ip4Header(ip *layers.IPv4) {
	p.addf("(tos 0x%x%s", ip.TOS, [4]string{"", ",ECT(1)", ",ECT(0)", ",CE"}[ip.TOS&3])
	if ip.TTL > 0 {
		p.addf(", ttl %d", ip.TTL)
	}
	flags := [8]string{"none", "+", "DF", "+, DF", "rsvd", "+, rsvd", "DF, rsvd", "+, DF, rsvd"}[ip.Flags]
	p.addf(", id %d, offset %d, flags [%s], proto %s (%d), length %d)\n    ",
		ip.Id, int(ip.FragOffset)*8, flags, protoName(ip.Protocol), ip.Protocol, ip.Length)
}

// firstFragment decodes a first fragment, which has the transport header: gopacket decodes no fragments.
func (p *printer) firstFragment(proto layers.IPProtocol, payload []byte) {
	p.decode(proto.LayerType(), payload)
	p.truncated = true
}

func (p *printer) ip6(ip *layers.IPv6) bool {
	if ip.SrcIP == nil || ip.Version != 6 {
		return false
	}
	p.add("IP6 ")
	length := int(ip.Length)
	if missing := length + 40 - p.length; missing > 0 {
		p.addf("truncated-ip6 - %d bytes missing!", missing)
	}
	if p.verbosity > 0 {
		p.add("(")
		if ip.TrafficClass != 0 {
			p.addf("class 0x%02x, ", ip.TrafficClass)
		}
		if ip.FlowLabel != 0 {
			p.addf("flowlabel 0x%05x, ", ip.FlowLabel)
		}
		p.addf("hlim %d, next-header %s (%d) payload length: %d) ", ip.HopLimit, protoName(ip.NextHeader), ip.NextHeader, length)
	}
	if length == 0 && ip.HopByHop != nil {
		length = p.length - 40 // a jumbogram
	}
	p.net = network{src: addr(ip.SrcIP), dst: addr(ip.DstIP)}
	p.protocol(ip.NextHeader, length)
	return true
}

// ip6Extension prints an IPv6 extension header and goes on to what follows it.
func (p *printer) ip6Extension(text string, contents []byte, next layers.IPProtocol) bool {
	if contents == nil {
		return false
	}
	p.add(text)
	p.protocol(next, p.length-len(contents))
	return true
}

func (p *printer) ip6Fragment(f *layers.IPv6Fragment) {
	p.add("frag (")
	if p.verbosity > 0 {
		p.addf("0x%08x:", f.Identification)
	}
	p.addf("%d|%d)", f.FragmentOffset*8, p.length-8)
	if f.FragmentOffset == 0 {
		p.add(" ")
		p.firstFragment(f.NextHeader, f.Payload)
		p.protocol(f.NextHeader, p.length-8)
	}
}

func (p *printer) tcp(t *layers.TCP) bool {
	length := p.length - int(t.DataOffset)*4
	if t.Contents == nil || length < 0 {
		return false
	}
	p.ports(uint16(t.SrcPort), uint16(t.DstPort))
	if p.verbosity < 0 {
		p.addf("tcp %d", length)
		return true
	}
	p.add("Flags [")
	before := len(p.line)
	for i, set := range []bool{t.FIN, t.SYN, t.RST, t.PSH, t.ACK, t.URG, t.ECE, t.CWR} {
		if set {
			p.line = append(p.line, "FSRP.UEW"[i])
		}
	}
	if len(p.line) == before {
		p.add("none")
	}
	p.add("]")
	if length > 0 {
		p.addf(", seq %d:%d", t.Seq, t.Seq+uint32(length))
	} else if t.SYN || t.FIN || t.RST {
		p.addf(", seq %d", t.Seq)
	}
	if t.ACK {
		p.addf(", ack %d", t.Ack)
	}
	p.addf(", win %d", t.Window)
	if t.URG {
		p.addf(", urg %d", t.Urgent)
	}
	if t.DataOffset > 5 && !p.tcpOptions(t) {
		return false
	}
	p.addf(", length %d", length)
	return true
}

// tcpOptions are the formats of options by kind and length.
var tcpOptions = map[[2]uint8]string{
	{0, 1}: "eol", {1, 1}: "nop", {2, 4}: "mss %d", {3, 3}: "wscale %d", {4, 2}: "sackOK", {8, 10}: "TS val %d ecr %d",
	{5, 10}: "sack 1 {%d:%d}", {5, 18}: "sack 2 {%d:%d}{%d:%d}", {5, 26}: "sack 3 {%d:%d}{%d:%d}{%d:%d}",
	{5, 34}: "sack 4 {%d:%d}{%d:%d}{%d:%d}{%d:%d}",
}

// tcpOptions prints the options. It is false where they are cut or wrong.
func (p *printer) tcpOptions(t *layers.TCP) bool {
	p.add(", options [")
	size := 20
	for i, o := range t.Options {
		if i > 0 {
			p.add(",")
		}
		size += int(o.OptionLength)
		if o.OptionType == layers.TCPOptionKindEndList {
			size += len(t.Padding)
		}
		format, ok := tcpOptions[[2]uint8{uint8(o.OptionType), o.OptionLength}]
		if !ok {
			p.addf("unknown-%d 0x%x", o.OptionType, o.OptionData)
			continue
		}
		var values []any
		for v := o.OptionData; len(v) > 0; {
			var value uint32
			for n := min(len(v), 4); n > 0; n-- {
				value, v = value<<8|uint32(v[0]), v[1:]
			}
			values = append(values, value)
		}
		p.addf(format, values...)
	}
	if size < int(t.DataOffset)*4 { // gopacket stopped at an option that it cannot read
		return false
	}
	p.add("]")
	return true
}

func (p *printer) udp(u *layers.UDP) bool {
	if u.Contents == nil || u.Length < 8 {
		return false
	}
	p.ports(uint16(u.SrcPort), uint16(u.DstPort))
	p.addf("UDP, length %d", min(p.length, int(u.Length))-8)
	return true
}

// icmpFormats are texts by type and code. Their values are the ID, the sequence number, which is the MTU in its place, and
// of the packet that an error is about: the destination, the protocol by number and name, and the port.
var icmpFormats = map[layers.ICMPv4TypeCode]string{
	0x0000: "echo reply, id %[1]d, seq %[2]d", 0x0800: "echo request, id %[1]d, seq %[2]d",
	0x0300: "net %[3]s unreachable", 0x0301: "host %[3]s unreachable", 0x0302: "%[3]s protocol %[4]d unreachable",
	0x0303: "%[3]s %[5]s port %[6]d unreachable", 0x0304: "%[3]s unreachable - need to frag (mtu %[2]d)",
	0x0305: "%[3]s unreachable - source route failed", 0x0306: "net %[3]s unreachable - unknown",
	0x0307: "host %[3]s unreachable - unknown", 0x0308: "%[3]s unreachable - source host isolated",
	0x0309: "net %[3]s unreachable - admin prohibited", 0x030a: "host %[3]s unreachable - admin prohibited",
	0x030b: "net %[3]s unreachable - tos prohibited", 0x030c: "host %[3]s unreachable - tos prohibited",
	0x030d: "host %[3]s unreachable - admin prohibited filter", 0x030e: "host %[3]s unreachable - host precedence violation",
	0x030f: "host %[3]s unreachable - precedence cutoff",
	0x0b00: "time exceeded in-transit%.0[5]s", 0x0b01: "ip reassembly time exceeded%.0[5]s",
}

func (p *printer) icmp(i *layers.ICMPv4) bool {
	var dst netip.Addr
	var proto layers.IPProtocol
	var port uint16
	if i.TypeCode.Type() == layers.ICMPv4TypeDestinationUnreachable {
		ip, ok := gopacket.NewPacket(i.Payload, layers.LayerTypeIPv4, gopacket.Lazy).NetworkLayer().(*layers.IPv4)
		if !ok || ip.DstIP == nil || len(ip.Payload) < 4 {
			return false
		}
		// The port is read here: 8 bytes of the header are enough for an error, but not for gopacket's TCP.
		dst, proto, port = addr(ip.DstIP), ip.Protocol, binary.BigEndian.Uint16(ip.Payload[2:])
	}
	if format, ok := icmpFormats[i.TypeCode]; ok {
		p.addf("ICMP "+format, i.Id, i.Seq, dst, proto, strings.ToLower(protoName(proto)), port)
	} else {
		p.addf("ICMP type-#%d code-#%d", i.TypeCode.Type(), i.TypeCode.Code())
	}
	p.addf(", length %d", p.length)
	return true
}

var icmp6Names = map[uint8]string{
	1: "destination unreachable", 2: "packet too big", 3: "time exceeded", 4: "parameter problem", 128: "echo request",
	129: "echo reply", 130: "multicast listener query", 131: "multicast listener report", 132: "multicast listener done",
	133: "router solicitation", 134: "router advertisement", 135: "neighbor solicitation", 136: "neighbor advertisement",
	137: "redirect", 143: "multicast listener report v2",
}

func (p *printer) icmp6(i *layers.ICMPv6) bool {
	typ, code := i.TypeCode.Type(), i.TypeCode.Code()
	p.add("ICMP6, " + cmp.Or(icmp6Names[typ], fmt.Sprintf("unknown icmp6 type (%d)", typ)))
	switch {
	case i.NextLayerType() != gopacket.LayerTypePayload:
		p.want = "icmp6"
		return true
	case typ != layers.ICMPv6TypePacketTooBig:
		p.addf(", code-#%d", code)
	case len(i.Payload) < 4:
		return false
	default:
		p.addf(", mtu %d", binary.BigEndian.Uint32(i.Payload))
	}
	p.addf(", length %d", p.length)
	return true
}

// icmp6Message prints what gopacket has as a layer under ICMPv6. Of the types without a case the name is enough.
func (p *printer) icmp6Message(l gopacket.Layer) bool {
	switch l := l.(type) {
	case *layers.ICMPv6Echo:
		p.addf(", id %d, seq %d", l.Identifier, l.SeqNumber)
	case *layers.ICMPv6NeighborSolicitation:
		p.addf(", who has %s", addr(l.TargetAddress))
	case *layers.ICMPv6NeighborAdvertisement:
		p.addf(", tgt is %s", addr(l.TargetAddress))
	case *layers.MLDv2MulticastListenerReportMessage:
		p.addf(", %d group record(s)", l.NumberOfMulticastAddressRecords)
	case *gopacket.DecodeFailure:
		return false
	}
	p.addf(", length %d", p.length)
	return true
}
