package cbpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Resolver looks names up: see filter.Resolver.
type Resolver interface {
	Host(name string) ([]netip.Addr, error)
	Network(name string) (uint32, error)
	Port(name, transport string) (uint16, error)
	Protocol(name string) (uint32, error)
}

// Resolve fills in the meaning of every identifier in a tree.
func Resolve(x syntax.Expr, r Resolver) {
	for p := range syntax.Primitives(x) {
		identifier{p, r}.resolve()
	}
}

// identifier is a primitive that is being resolved.
type identifier struct {
	*syntax.Primitive
	resolver Resolver
}

// resolve dispatches on the identifier's form, which the scanner has determined.
func (p identifier) resolve() {
	switch {
	case p.At.Kind == syntax.KindArcnet:
		p.At.Fail("", "ARCnet addresses do not exist on Ethernet")
	case p.At.Kind == syntax.KindEther:
		p.resolveEther()
	case p.At.Kind == syntax.KindSet:
		p.resolveSet()
	case p.Qual.Type == syntax.AddrGateway:
		p.At.Fail("write ether host MAC and not host IP", "gateway needs the host's Ethernet address, and those names are not looked up")
	case p.At.Kind == syntax.KindIPv6:
		p.resolveIPv6()
	case p.Slash || p.Mask.Kind == syntax.KindIPv4:
		p.resolveNet()
	case p.At.Kind == syntax.KindName:
		p.resolveName()
	default:
		p.resolveNumber()
	}
}

// resolveEther reads a MAC address: six groups of one or two digits, or twelve digits.
func (p identifier) resolveEther() {
	if p.Qual.Proto != syntax.ProtoLink || (p.Qual.Type != syntax.AddrNone && p.Qual.Type != syntax.AddrHost) {
		p.At.Fail("write ether host, ether src or ether dst before it", "Ethernet address without ether")
	}
	text := p.At.Text
	for i := range p.Ether {
		text = strings.TrimLeft(text, ":-.")
		n := 1
		if len(text) > 1 && !strings.ContainsRune(":-.", rune(text[1])) {
			n = 2
		}
		v, _ := strconv.ParseUint(text[:n], 16, 8) // the scanner let only hexadecimal digits pass
		p.Ether[i], text = byte(v), text[n:]
	}
}

// resolveIPv6 reads an IPv6 address or network.
func (p identifier) resolveIPv6() {
	a := netip.MustParseAddr(p.At.Text) // checked by the scanner
	p.Prefix = 128
	if p.Slash {
		if p.Bits > 128 {
			p.At.Fail("", "prefix length %d is more than 128", p.Bits)
		}
		p.Prefix = int(p.Bits)
	}
	if network := netip.PrefixFrom(a, p.Prefix).Masked(); network.Addr() != a {
		p.At.Fail(fmt.Sprintf("did you mean %v?", network), "the address has host bits set")
	}
	switch p.Qual.Type {
	case syntax.AddrNone, syntax.AddrHost:
		if p.Prefix != 128 {
			p.At.Fail("write net before it", "only a net has a prefix length")
		}
	case syntax.AddrNet:
	default:
		p.At.Fail("", "an IPv6 address does not fit here")
	}
	p.Hosts = []netip.Addr{a}
	p.checkHostProto(p.Qual.Proto == syntax.ProtoIP6, "an IPv6 address")
}

// resolveNet reads IPv4 networks with a mask or prefix length.
func (p identifier) resolveNet() {
	var n int
	if p.Addr, n = ipv4(p.At); n < 32 {
		p.Addr <<= 32 - n
	}
	if p.Mask.Kind == syntax.KindIPv4 {
		if p.Netmask, n = ipv4(p.Mask); n < 32 {
			p.Netmask <<= 32 - n
		}
	} else {
		if p.Bits > 32 {
			p.At.Fail("", "prefix length %d is more than 32", p.Bits)
		}
		p.Netmask = ^uint32(0) << (32 - p.Bits)
	}
	if p.Addr&^p.Netmask != 0 {
		network := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, p.Addr&p.Netmask)))
		meant := fmt.Sprintf("did you mean %v/%d?", network, p.Bits)
		if p.Mask.Kind == syntax.KindIPv4 {
			meant = fmt.Sprintf("did you mean %v mask %s?", network, p.Mask.Text)
		}
		p.At.Fail(meant, "the address has host bits set")
	}
	if p.Qual.Type != syntax.AddrNet {
		p.At.Fail("write net before it", "only a net has a mask")
	}
	p.checkHostProto(isIPv4Proto(p.Qual.Proto), "an IPv4 network")
}

// resolveNumber reads IPv4 addresses, plain numbers and DECnet addresses.
func (p identifier) resolveNumber() {
	v, n, dotted := p.At.Num, 32, p.At.Kind == syntax.KindIPv4
	switch {
	case p.Qual.Proto == syntax.ProtoDECNET && p.Qual.Type <= syntax.AddrHost:
		p.Addr = decnetAddress(p.At)
		return
	case dotted && p.Qual.Type >= syntax.AddrPort:
		p.At.Fail("", "an IPv4 address does not fit here")
	case dotted:
		v, n = ipv4(p.At)
	}
	switch p.Qual.Type {
	case syntax.AddrPort, syntax.AddrPortrange:
		p.setPorts(v, v, syntax.ProtoNone)
	case syntax.AddrProto, syntax.AddrProtochain:
		p.Number = v
		p.checkProto()
	default:
		p.Addr, p.Netmask = v<<(32-n), ^uint32(0)<<(32-n)
		// A network that is one number is an address that ends with zeros: 10 is 10.0.0.0.
		for !dotted && p.Qual.Type == syntax.AddrNet && p.Addr != 0 && p.Addr>>24 == 0 {
			p.Addr, p.Netmask = p.Addr<<8, p.Netmask<<8
		}
		p.checkHostProto(isIPv4Proto(p.Qual.Proto), "an IPv4 address")
	}
}

// ipv4 reads one to four decimal numbers with dots between, and returns their number of bits. A
// leading zero does not make a number octal.
func ipv4(t syntax.Token) (v uint32, bits int) {
	for part := range strings.SplitSeq(t.Text, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || n > 255 {
			t.Fail("four decimal numbers up to 255", "not an IPv4 address")
		}
		v, bits = v<<8|uint32(n), bits+8
	}
	return v, bits
}

// decnetAddress reads a DECnet address, area.node.
func decnetAddress(t syntax.Token) uint32 {
	first, second, _ := strings.Cut(t.Text, ".")
	area, err1 := strconv.ParseUint(first, 10, 6)
	node, err2 := strconv.ParseUint(second, 10, 10)
	if err1 != nil || err2 != nil {
		t.Fail("area.node: decimal numbers up to 63 and 1023", "not a DECnet address")
	}
	return uint32(area<<10 | node)
}

// isIPv4Proto reports whether the headers of a protocol have addresses of four bytes.
func isIPv4Proto(q syntax.Proto) bool {
	return q == syntax.ProtoIP || q == syntax.ProtoARP || q == syntax.ProtoRARP
}

// checkHostProto refuses the qualifier's protocol, if there is one, unless its headers have such an
// address.
func (p identifier) checkHostProto(hasAddress bool, address string) {
	if !hasAddress && p.Qual.Proto != syntax.ProtoNone {
		p.At.Fail("", "the protocol before it does not carry %s", address)
	}
}
