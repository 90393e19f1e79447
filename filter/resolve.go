package filter

import (
	"net/netip"
	"strconv"
	"strings"
)

// resolve replaces every name and address text of the tree by numbers, and refuses qualifiers that do not fit.
func resolve(n node, r Resolver) {
	switch n := n.(type) {
	case *logical:
		resolve(n.x, r)
		resolve(n.y, r)
	case *negation:
		resolve(n.x, r)
	case *primitive:
		n.resolve(r)
	}
}

func (p *primitive) resolve(r Resolver) {
	switch {
	case p.at.kind == kArcnet:
		fail(p.at, "", "ARCnet addresses do not exist on Ethernet")
	case p.at.kind == kEther:
		p.resolveEther()
	case p.qual.typ == addrGateway:
		fail(p.at, "write ether host MAC and not host IP", "gateway is not supported, as in Debian's libpcap")
	case p.at.kind == kIPv6:
		p.resolveIPv6()
	case p.slash || p.mask.kind == kIPv4:
		p.resolveNet()
	case p.at.kind == kName:
		p.resolveName(r)
	default:
		p.resolveNumber()
	}
}

func (p *primitive) resolveEther() {
	if p.qual.proto != protoLink || (p.qual.typ != addrNone && p.qual.typ != addrHost) {
		fail(p.at, "write ether host, ether src or ether dst before it", "Ethernet address without ether")
	}
	text := p.at.text
	for i := range p.ether {
		text = strings.TrimLeft(text, ":-.")
		n := 1
		if len(text) > 1 && !strings.ContainsRune(":-.", rune(text[1])) {
			n = 2
		}
		v, _ := strconv.ParseUint(text[:n], 16, 8) // the scanner let only hexadecimal digits pass
		p.ether[i], text = byte(v), text[n:]
	}
}

func (p *primitive) resolveIPv6() {
	a := netip.MustParseAddr(p.at.text) // checked by the scanner
	p.prefix = 128
	if p.slash {
		if p.bits > 128 {
			fail(p.at, "", "prefix length %d is more than 128", p.bits)
		}
		p.prefix = int(p.bits)
	}
	if netip.PrefixFrom(a, p.prefix).Masked().Addr() != a {
		fail(p.at, "the address of a network ends with zeros", "bits are set behind the prefix of %d", p.prefix)
	}
	switch p.qual.typ {
	case addrNone, addrHost:
		if p.prefix != 128 {
			fail(p.at, "write net before it", "only a net has a prefix length")
		}
	case addrNet:
	default:
		fail(p.at, "", "an IPv6 address cannot stand here")
	}
	p.hosts = []netip.Addr{a}
	p.checkHostProto(p.qual.proto == protoIP6, "an IPv6 address")
}

// resolveNet reads IPv4 networks with a mask or prefix length.
func (p *primitive) resolveNet() {
	var n int
	if p.addr, n = ipv4(p.at); n < 32 {
		p.addr <<= 32 - n
	}
	if p.mask.kind == kIPv4 {
		if p.netm, n = ipv4(p.mask); n < 32 {
			p.netm <<= 32 - n
		}
	} else {
		if p.bits > 32 {
			fail(p.at, "", "prefix length %d is more than 32", p.bits)
		}
		p.netm = ^uint32(0) << (32 - p.bits)
	}
	if p.addr&^p.netm != 0 {
		fail(p.at, "the address of a network ends with zeros", "bits are set behind the network's mask")
	}
	if p.qual.typ != addrNet {
		fail(p.at, "write net before it", "only a net has a mask")
	}
	p.checkHostProto(isIPv4Proto(p.qual.proto), "an IPv4 network")
}

// resolveNumber reads IPv4 addresses, plain numbers and DECnet addresses.
func (p *primitive) resolveNumber() {
	v, n, dotted := p.at.num, 32, p.at.kind == kIPv4
	switch {
	case dotted && p.qual.typ >= addrPort:
		fail(p.at, "", "an IPv4 address cannot stand here")
	case dotted && p.qual.proto == protoDECNET:
		v = decnetAddress(p.at)
	case dotted:
		v, n = ipv4(p.at)
	}
	switch p.qual.typ {
	case addrPort, addrPortrange:
		p.setPorts(v, v, protoNone)
	case addrProto:
		p.number = v
		p.checkProto()
	default:
		p.addr, p.netm = v<<(32-n), ^uint32(0)<<(32-n)
		// A network given as a plain number is short for the one with zeros behind.
		for !dotted && p.qual.typ == addrNet && p.addr != 0 && p.addr>>24 == 0 {
			p.addr, p.netm = p.addr<<8, p.netm<<8
		}
		p.checkHostProto(isIPv4Proto(p.qual.proto), "an IPv4 address")
	}
}

// ipv4 reads one to four dotted decimals and tells how many bits they are. A leading zero means nothing.
func ipv4(t token) (v uint32, bits int) {
	for part := range strings.SplitSeq(t.text, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || n > 255 {
			fail(t, "four decimal numbers up to 255", "not an IPv4 address")
		}
		v, bits = v<<8|uint32(n), bits+8
	}
	return v, bits
}

func decnetAddress(t token) uint32 {
	parts := strings.SplitN(t.text, ".", 3)
	area, err1 := strconv.ParseUint(parts[0], 10, 32)
	node, err2 := strconv.ParseUint(parts[1], 10, 32)
	if err1 != nil || err2 != nil {
		fail(t, "area.node, both decimal", "not a DECnet address")
	}
	return uint32(area<<10&0xfc00 | node&0x3ff)
}

func isIPv4Proto(q proto) bool {
	return q == protoIP || q == protoARP || q == protoRARP || q == protoDECNET
}

// checkHostProto refuses protocols whose headers have no such address.
func (p *primitive) checkHostProto(ok bool, what string) {
	if !ok && p.qual.proto != protoNone {
		fail(p.at, "", "the protocol named before it does not carry %s", what)
	}
}
