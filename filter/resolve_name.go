package filter

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// resolveName looks a name up as what its qualifiers say it is.
func (p *primitive) resolveName(r Resolver) {
	name := strings.TrimPrefix(p.at.text, `\`)
	switch p.qual.typ {
	case addrNet:
		v, err := r.Network(name)
		if err != nil || v == 0 {
			fail(p.at, reason(err, "network 0 is every network"), "unknown network")
		}
		for p.netm = ^uint32(0); v>>24 == 0; v, p.netm = v<<8, p.netm<<8 {
		}
		p.addr = v
		p.checkHostProto(isIPv4Proto(p.qual.proto), "an IPv4 network")
	case addrPort:
		port, transport := p.lookupPort(r, name)
		p.setPorts(port, port, transport)
	case addrPortrange:
		p.resolvePortrange(r, name)
	case addrProto:
		p.number = p.lookupProto(r, name)
		p.checkProto()
	default:
		p.resolveHost(r, name)
	}
}

func (p *primitive) resolveHost(r Resolver, name string) {
	switch q := p.qual.proto; q {
	case protoLink:
		fail(p.at, "write the MAC address, or "+fileHint, "names of Ethernet addresses are not looked up")
	case protoDECNET:
		fail(p.at, "write area.node", "DECnet names are not looked up")
	case protoNone, protoIP, protoARP, protoRARP, protoIP6:
	default:
		p.checkHostProto(false, "a host address")
	}
	addrs, err := r.Host(name)
	if err != nil {
		fail(p.at, err.Error(), "unknown host")
	}
	for _, a := range addrs {
		a = a.Unmap()
		// libpcap skips the other family for ip and ip6, and refuses IPv6 for arp and rarp.
		if a.Is4() && p.qual.proto == protoIP6 || a.Is6() && p.qual.proto == protoIP {
			continue
		}
		if a.Is6() && (p.qual.proto == protoARP || p.qual.proto == protoRARP) {
			fail(p.at, "", "the protocol named before it does not carry an IPv6 address")
		}
		p.hosts = append(p.hosts, a)
	}
	p.prefix = 128
	if len(p.hosts) == 0 {
		fail(p.at, "", "host has no address of this family")
	}
}

// lookupPort asks for TCP and UDP. protoNone is both of them (and SCTP, which uses the same numbers).
func (p *primitive) lookupPort(r Resolver, name string) (uint32, proto) {
	if v, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(v) & 0xffff, protoNone // as getaddrinfo cuts it
	}
	tcp, tcpErr := r.Port(name, "tcp")
	udp, udpErr := r.Port(name, "udp")
	switch {
	case tcpErr == nil && udpErr == nil && tcp == udp:
		return uint32(tcp), protoNone
	case tcpErr == nil:
		return uint32(tcp), protoTCP
	case udpErr == nil:
		return uint32(udp), protoUDP
	}
	fail(p.at, tcpErr.Error(), "unknown port")
	return 0, protoNone
}

func (p *primitive) resolvePortrange(r Resolver, name string) {
	var lo, hi uint32
	if n, _ := fmt.Sscanf(name, "%d-%d", &lo, &hi); n == 2 {
		p.setPorts(lo, hi, protoNone)
		return
	}
	first, last, ok := strings.Cut(name, "-")
	if !ok {
		fail(p.at, "write first-last", "not a range of ports")
	}
	v1, t1 := p.lookupPort(r, first)
	v2, t2 := p.lookupPort(r, last)
	if t1 != t2 {
		t2 = protoNone
	}
	p.setPorts(v1, v2, t2)
}

// setPorts keeps ports and transport; found is the transport the name belongs to.
func (p *primitive) setPorts(lo, hi uint32, found proto) {
	q := p.qual.proto
	switch q {
	case protoNone:
		q = found
	case protoTCP, protoUDP, protoSCTP:
		if found != protoNone && found != q {
			fail(p.at, "", "this port belongs to another transport")
		}
	default:
		fail(p.at, "only tcp, udp and sctp have ports", "port of a protocol without ports")
	}
	if lo > 65535 || hi > 65535 {
		fail(p.at, "", "port number is more than 65535")
	}
	p.ports, p.transport = [2]uint32{min(lo, hi), max(lo, hi)}, q
}

// linkProtocols are the names libpcap knows behind "ether proto".
var linkProtocols = map[string]uint32{"aarp": wire.EtherAARP, "arp": wire.EtherARP, "atalk": wire.EtherATALK, "decnet": wire.EtherDECNET,
	"ip": wire.EtherIP, "ip6": wire.EtherIP6, "lat": wire.EtherLAT, "loopback": wire.EtherLoopback, "mopdl": wire.EtherMOPDL, "moprc": wire.EtherMOPRC,
	"rarp": wire.EtherRARP, "sca": wire.EtherSCA, "iso": wire.SAPISO, "stp": wire.SAPSTP, "ipx": wire.SAPIPX, "netbeui": wire.SAPNETBEUI}

var isoProtocols = map[string]uint32{"esis": wire.ISOESIS, "isis": wire.ISOISIS, "clnp": wire.ISOCLNP}

func (p *primitive) lookupProto(r Resolver, name string) uint32 {
	known := isoProtocols
	switch p.qual.proto {
	case protoNone, protoIP, protoIP6:
		v, err := r.Protocol(name)
		if err != nil {
			fail(p.at, err.Error(), "unknown protocol")
		}
		return v
	case protoLink:
		known = linkProtocols
	case protoISO:
	default:
		fail(p.at, "write its number", "unknown protocol")
	}
	v, ok := known[name]
	if !ok {
		fail(p.at, "write its number", "unknown protocol")
	}
	return v
}

// checkProto refuses "proto" behind a protocol that carries no other.
func (p *primitive) checkProto() {
	switch p.qual.proto {
	case protoNone, protoLink, protoIP, protoIP6, protoISO, protoISIS:
	default:
		fail(p.at, "", "the protocol named before it has no field for another protocol")
	}
}

func reason(err error, otherwise string) string {
	if err != nil {
		return fmt.Sprint(err)
	}
	return otherwise
}

// ip4 is the address as a number.
func ip4(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
