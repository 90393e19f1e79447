package dissect

import (
	"cmp"
	"net/netip"

	"github.com/gopacket/gopacket/layers"
)

// network has the addresses of an IP header. They are printed once the transport header was read,
// because the ports stand beside them.
type network struct {
	src, dst netip.Addr
	named    bool // the addresses are already printed
}

// hosts appends the addresses, unless the line has them already.
func (d *Dissector) hosts() {
	if n := &d.net; !n.named {
		d.addf("%s > %s: ", n.src, n.dst)
		n.named = true
	}
}

// ports appends the addresses with ports, or the ports alone where the line has the addresses
// already, which is so behind an extension header of IPv6.
func (d *Dissector) ports(src, dst uint16) {
	if n := &d.net; n.named {
		d.addf("%d > %d: ", src, dst)
	} else {
		d.addf("%s.%d > %s.%d: ", n.src, src, n.dst, dst)
		n.named = true
	}
}

// protocols are tcpdump's names of protocols. Those that have a format of their own here have a
// mark, too.
var protocols = map[layers.IPProtocol]struct{ name, mark string }{
	0: {"Options", "ip6"}, 1: {"ICMP", "icmp"}, 2: {"IGMP", ""}, 4: {"IPIP", "ip"}, 6: {"TCP", "tcp"}, 17: {"UDP", "udp"},
	41: {"IPv6", "ip6"}, 43: {"Routing", "ip6"}, 44: {"Fragment", "ip6"}, 47: {"GRE", "gre"}, 50: {"ESP", ""},
	51: {"AH", ""}, 58: {"ICMPv6", "icmp6"}, 60: {"unknown", "ip6"}, 88: {"EIGRP", ""}, 89: {"OSPF", ""}, 103: {"PIM", ""},
	112: {"VRRP", ""}, 132: {"SCTP", ""},
}

func protoName(proto layers.IPProtocol) string { return cmp.Or(protocols[proto].name, "unknown") }

// protocol says that length bytes of proto come next. A protocol without a format of its own ends
// the line.
func (d *Dissector) protocol(proto layers.IPProtocol, length int) {
	known, ok := protocols[proto]
	d.length, d.want = length, known.mark
	if proto != layers.IPProtocolTCP && proto != layers.IPProtocolUDP {
		d.hosts()
	}
	switch {
	case proto == layers.IPProtocolNoNextHeader:
		d.add("no next header")
	case !ok:
		d.addf(" ip-proto-%d %d", proto, length)
	case d.want == "":
		d.addf("%s (%d), length %d", known.name, proto, length)
	}
}

func (d *Dissector) ip4(ip *layers.IPv4) bool {
	if ip.SrcIP == nil || ip.Version != 4 {
		return false
	}
	d.name("IP ")
	total := int(ip.Length)
	if total > d.length {
		d.addf("truncated-ip - %d bytes missing! ", total-d.length)
	}
	if d.o.Verbose > 0 {
		d.ip4Header(ip)
	}
	d.net = network{src: addr(ip.SrcIP), dst: addr(ip.DstIP)}
	if ip.FragOffset > 0 {
		d.hosts()
		d.addf("ip-proto-%d", ip.Protocol)
		return true
	}
	if ip.Flags&layers.IPv4MoreFragments != 0 {
		d.firstFragment(ip.Protocol, ip.Payload)
	}
	d.protocol(ip.Protocol, total-len(ip.Contents))
	return true
}

// ip4Header appends the fields that verbosity 1 adds. The rest of the packet goes onto a second
// line.
func (d *Dissector) ip4Header(ip *layers.IPv4) {
	d.addf("(tos 0x%x%s", ip.TOS, [4]string{"", ",ECT(1)", ",ECT(0)", ",CE"}[ip.TOS&3])
	if ip.TTL > 0 {
		d.addf(", ttl %d", ip.TTL)
	}
	flags := [8]string{"none", "+", "DF", "+, DF", "rsvd", "+, rsvd", "DF, rsvd", "+, DF, rsvd"}[ip.Flags]
	d.addf(", id %d, offset %d, flags [%s], proto %s (%d), length %d)\n    ",
		ip.Id, int(ip.FragOffset)*8, flags, protoName(ip.Protocol), ip.Protocol, ip.Length)
}

// firstFragment decodes the payload of a first fragment, which begins with the transport header.
// gopacket itself decodes no fragments.
func (d *Dissector) firstFragment(proto layers.IPProtocol, payload []byte) {
	d.decode(proto.LayerType(), payload)
	d.truncated = true
}

func (d *Dissector) ip6(ip *layers.IPv6) bool {
	if ip.SrcIP == nil || ip.Version != 6 {
		return false
	}
	d.name("IP6 ")
	length := int(ip.Length)
	if missing := length + 40 - d.length; missing > 0 {
		d.addf("truncated-ip6 - %d bytes missing!", missing)
	}
	if d.o.Verbose > 0 {
		d.add("(")
		if ip.TrafficClass != 0 {
			d.addf("class 0x%02x, ", ip.TrafficClass)
		}
		if ip.FlowLabel != 0 {
			d.addf("flowlabel 0x%05x, ", ip.FlowLabel)
		}
		d.addf("hlim %d, next-header %s (%d) payload length: %d) ", ip.HopLimit, protoName(ip.NextHeader), ip.NextHeader, length)
	}
	if length == 0 && ip.HopByHop != nil {
		length = d.length - 40 // a jumbogram
	}
	d.net = network{src: addr(ip.SrcIP), dst: addr(ip.DstIP)}
	d.protocol(ip.NextHeader, length)
	return true
}

// ip6Extension appends an IPv6 extension header, and says what comes next.
func (d *Dissector) ip6Extension(text string, contents []byte, next layers.IPProtocol) bool {
	if contents == nil {
		return false
	}
	d.add(text)
	d.protocol(next, d.length-len(contents))
	return true
}

func (d *Dissector) ip6Fragment(f *layers.IPv6Fragment) {
	d.add("frag (")
	if d.o.Verbose > 0 {
		d.addf("0x%08x:", f.Identification)
	}
	d.addf("%d|%d)", f.FragmentOffset*8, d.length-8)
	if f.FragmentOffset == 0 {
		d.add(" ")
		d.firstFragment(f.NextHeader, f.Payload)
		d.protocol(f.NextHeader, d.length-8)
	}
}
