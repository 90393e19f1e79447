package cbpf

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// ifEthernet adds to a test of an Ethernet header the condition that the packet has one. A packet
// of the walk may lack it, and so may a packet in Geneve: then the function geneve has stored the
// same offset for link header and payload.
func (g *generator) ifEthernet(b *block) *block {
	if g.carried {
		return and(g.levelHasEthernet(), b)
	}
	if !g.mayLackEthernet {
		return b
	}
	check := newBlock(JeqX, 0, op(LdMem, g.linkhdr.slot), op(LdxMem, g.payload.slot))
	return and(not(check), b)
}

// mac tests for MAC addresses.
func (g *generator) mac(mac []byte, d syntax.Direction) *block {
	return directed(d, 6, 0, func(at uint32) *block { return g.bytes(field{fromLink, at}, mac) })
}

// requireEthernet refuses a test that needs an Ethernet header.
func (g *generator) requireEthernet(t syntax.Token) {
	switch g.link {
	case linkEthernet:
	case linkCooked, linkCooked2, linkRaw, linkLoopback:
		t.Fail("", "%s packets have no Ethernet header", headers.LinkNames[g.Link])
	default:
		t.Fail("put it before pppoes", "there is no Ethernet header inside PPP")
	}
}

// broadcast tests for packets to the broadcast address.
func (g *generator) broadcast(s *syntax.Special) *block {
	switch s.Proto {
	case syntax.ProtoNone, syntax.ProtoLink:
		g.requireEthernet(s.At)
		return g.ifEthernet(g.mac([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, syntax.DirDst))
	case syntax.ProtoIP:
		if len(g.Netmask) == 0 {
			s.At.Fail("capture on an interface that has an IPv4 address, or write ether broadcast",
				"the interface's netmask is not known")
		}
		ip := g.linkIs(s.At, EtherIP)
		host := ^binary.BigEndian.Uint32(g.Netmask)
		zeros := g.masked(field{fromNetwork, 16}, SizeW, 0, host)
		return and(ip, or(zeros, g.masked(field{fromNetwork, 16}, SizeW, host, host)))
	}
	s.At.Fail("write ether broadcast or ip broadcast", "only Ethernet and IPv4 have broadcasts")
	return nil
}

// multicast tests for packets to a group.
func (g *generator) multicast(s *syntax.Special) *block {
	switch s.Proto {
	case syntax.ProtoNone, syntax.ProtoLink:
		g.requireEthernet(s.At)
		return g.ifEthernet(newBlock(Jset, 1, g.load(field{fromLink, 0}, SizeB)...))
	case syntax.ProtoIP:
		ip := g.linkIs(s.At, EtherIP)
		return and(ip, g.compare(field{fromNetwork, 16}, SizeB, OpJge, 224))
	case syntax.ProtoIP6:
		ip := g.linkIs(s.At, EtherIP6)
		return and(ip, g.equal(field{fromNetwork, 24}, SizeB, 255))
	}
	s.At.Fail("write ether, ip or ip6 multicast", "only Ethernet, IPv4 and IPv6 have multicasts")
	return nil
}
