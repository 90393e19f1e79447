package cbpf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// resolveName looks a name up. The kind of name follows from the qualifiers.
func (p identifier) resolveName() {
	name := strings.TrimPrefix(p.At.Text, `\`)
	switch p.Qual.Type {
	case syntax.AddrNet:
		v, err := p.resolver.Network(name)
		if err != nil || v == 0 {
			p.At.Fail(reason(err, "network 0 is every network"), "unknown network")
		}
		for p.Netmask = ^uint32(0); v>>24 == 0; v, p.Netmask = v<<8, p.Netmask<<8 {
		}
		p.Addr = v
		p.checkHostProto(isIPv4Proto(p.Qual.Proto), "an IPv4 network")
	case syntax.AddrPort:
		port, transport := p.lookupPort(name)
		p.setPorts(port, port, transport)
	case syntax.AddrPortrange:
		p.resolvePortrange(name)
	case syntax.AddrProto, syntax.AddrProtochain:
		p.Number = p.lookupProto(name)
		p.checkProto()
	default:
		p.resolveHost(name)
	}
}

// resolveHost looks up a host's addresses.
func (p identifier) resolveHost(name string) {
	switch q := p.Qual.Proto; q {
	case syntax.ProtoLink:
		p.At.FailAs(syntax.ErrUnsupported, "write the MAC address", "names of Ethernet addresses are not looked up")
	case syntax.ProtoDECNET:
		p.At.Fail("write area.node", "DECnet names are not looked up")
	case syntax.ProtoNone, syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoIP6:
	default:
		p.checkHostProto(false, "a host address")
	}
	addrs, err := p.resolver.Host(name)
	if err != nil {
		p.At.Fail(err.Error(), "unknown host")
	}
	for _, a := range addrs {
		a = a.Unmap()
		// libpcap skips the other family for ip and ip6, and refuses IPv6 for arp and rarp.
		if a.Is4() && p.Qual.Proto == syntax.ProtoIP6 || a.Is6() && p.Qual.Proto == syntax.ProtoIP {
			continue
		}
		if a.Is6() && (p.Qual.Proto == syntax.ProtoARP || p.Qual.Proto == syntax.ProtoRARP) {
			p.At.Fail("", "the protocol before it has no IPv6 addresses")
		}
		p.Hosts = append(p.Hosts, a)
	}
	p.Prefix = 128
	if len(p.Hosts) == 0 {
		p.At.Fail("", "host has no address of this family")
	}
}

// lookupPort looks a service up for TCP and UDP, and returns the transport that has it. ProtoNone
// stands for both, and for SCTP, which uses the same numbers.
func (p identifier) lookupPort(name string) (uint32, syntax.Proto) {
	if v, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(v) & 0xffff, syntax.ProtoNone // getaddrinfo truncates it, too
	}
	tcp, tcpErr := p.resolver.Port(name, "tcp")
	udp, udpErr := p.resolver.Port(name, "udp")
	switch {
	case tcpErr == nil && udpErr == nil && tcp == udp:
		return uint32(tcp), syntax.ProtoNone
	case tcpErr == nil:
		return uint32(tcp), syntax.ProtoTCP
	case udpErr == nil:
		return uint32(udp), syntax.ProtoUDP
	}
	hint := tcpErr.Error()
	if ports := syntax.PortsOf(name); ports != "" {
		hint = "write " + ports
	}
	p.At.Fail(hint, "unknown port")
	return 0, syntax.ProtoNone
}

// resolvePortrange reads two numbers or names of ports with a hyphen between.
func (p identifier) resolvePortrange(name string) {
	first, last, ok := strings.Cut(name, "-")
	if !ok {
		p.At.Fail("write first-last", "not a port range")
	}
	v1, t1 := p.rangeEnd(first)
	v2, t2 := p.rangeEnd(last)
	if t1 != t2 {
		t2 = syntax.ProtoNone
	}
	p.setPorts(v1, v2, t2)
}

// rangeEnd resolves the number or name of a port at either end of a range.
func (p identifier) rangeEnd(name string) (uint32, syntax.Proto) {
	if name == "" || strings.Trim(name, "0123456789") != "" {
		return p.lookupPort(name)
	}
	v, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		p.At.Fail("", "port number is more than 65535")
	}
	return uint32(v), syntax.ProtoNone
}

// setPorts stores the ports and their transport. found is the transport that has the port's name.
func (p identifier) setPorts(lo, hi uint32, found syntax.Proto) {
	q := p.Qual.Proto
	switch q {
	case syntax.ProtoNone:
		q = found
	case syntax.ProtoTCP, syntax.ProtoUDP, syntax.ProtoSCTP:
		if found != syntax.ProtoNone && found != q {
			p.At.Fail("", "this port belongs to another transport")
		}
	default:
		p.At.Fail("only tcp, udp and sctp have ports", "port of a protocol without ports")
	}
	if lo > 65535 || hi > 65535 {
		p.At.Fail("", "port number is more than 65535")
	}
	p.Ports, p.Transport = [2]uint32{min(lo, hi), max(lo, hi)}, q
}

// linkProtocols are the names that libpcap accepts after "ether proto".
var linkProtocols = map[string]uint32{"aarp": EtherAARP, "arp": EtherARP, "atalk": EtherATALK, "decnet": EtherDECNET,
	"ip": EtherIP, "ip6": EtherIP6, "lat": EtherLAT, "lldp": EtherLLDP, "loopback": EtherLoopback, "mopdl": EtherMOPDL, "moprc": EtherMOPRC,
	"rarp": EtherRARP, "sca": EtherSCA, "slow": EtherSlow, "iso": SAPISO, "stp": SAPSTP, "ipx": SAPIPX, "netbeui": SAPNETBEUI}

// isoProtocols are the names that libpcap accepts after "iso proto".
var isoProtocols = map[string]uint32{"esis": ISOESIS, "isis": ISOISIS, "clnp": ISOCLNP}

// lookupProto finds a protocol's number in the protocol that the qualifier names.
func (p identifier) lookupProto(name string) uint32 {
	known := isoProtocols
	switch p.Qual.Proto {
	case syntax.ProtoNone, syntax.ProtoIP, syntax.ProtoIP6:
		v, err := p.resolver.Protocol(name)
		if err != nil {
			p.At.Fail(err.Error(), "unknown protocol")
		}
		return v
	case syntax.ProtoLink:
		known = linkProtocols
	case syntax.ProtoISO:
	default:
		p.At.Fail("write its number", "unknown protocol")
	}
	v, ok := known[name]
	if !ok {
		p.At.Fail("write its number", "unknown protocol")
	}
	return v
}

// checkProto refuses the word proto after a protocol that has no number for its payload, and
// protochain after a protocol without extension headers.
func (p identifier) checkProto() {
	switch p.Qual.Proto {
	case syntax.ProtoNone, syntax.ProtoIP, syntax.ProtoIP6:
	case syntax.ProtoLink, syntax.ProtoISO, syntax.ProtoISIS:
		if p.Qual.Type == syntax.AddrProtochain {
			p.At.Fail("write ip protochain or ip6 protochain", "the protocol before it has no chain of headers")
		}
	default:
		p.At.Fail("", "the protocol before it carries no other protocol")
	}
}

// reason returns the text of err, or otherwise if err is nil.
func reason(err error, otherwise string) string {
	if err != nil {
		return fmt.Sprint(err)
	}
	return otherwise
}
