package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// ethernet guards a test of MAC addresses after a Geneve header, because that header may carry
// another protocol than Ethernet. In that case geneve has stored the same offset for link header
// and payload.
func (g *generator) ethernet(b *Block) *Block {
	if g.carried {
		return And(g.levelHasEthernet(), b)
	}
	if !g.mayLackEthernet {
		return b
	}
	check := New(cbpf.JeqX, 0, Op(cbpf.LdMem, uint32(g.linkhdr.slot)), Op(cbpf.LdxMem, uint32(g.payload.slot)))
	return And(Not(check), b)
}

// mac tests for MAC addresses.
func (g *generator) mac(mac []byte, d syntax.Direction) *Block {
	switch d {
	case syntax.DirSrc:
		return g.bytes(field{fromLink, 6}, mac)
	case syntax.DirDst:
		return g.bytes(field{fromLink, 0}, mac)
	}
	src := g.mac(mac, syntax.DirSrc)
	dst := g.mac(mac, syntax.DirDst)
	if d == syntax.DirAnd {
		return And(src, dst)
	}
	return Or(src, dst)
}

// requireEthernet refuses a test that needs an Ethernet header.
func (g *generator) requireEthernet(t syntax.Token) {
	switch g.link {
	case linkEthernet:
	case linkCooked, linkCooked2, linkRaw, linkLoopback:
		t.Fail("", "%s packets have no Ethernet header", headers.LinkNames[g.outer])
	default:
		t.Fail("put it before pppoes", "there is no Ethernet header inside PPP")
	}
}

// broadcast tests for packets to the broadcast address.
func (g *generator) broadcast(s *syntax.Special) *Block {
	switch s.Proto {
	case syntax.ProtoNone, syntax.ProtoLink:
		g.requireEthernet(s.At)
		return g.ethernet(g.mac([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, syntax.DirDst))
	case syntax.ProtoIP:
		if !g.hasMask {
			s.At.Fail("capture on an interface that has an IPv4 address, or write ether broadcast",
				"the interface's netmask is not known")
		}
		ip := g.linkIs(s.At, names.EtherIP)
		host := ^g.netmask
		zeros := g.masked(field{fromNetwork, 16}, cbpf.SizeW, 0, host)
		return And(ip, Or(zeros, g.masked(field{fromNetwork, 16}, cbpf.SizeW, host, host)))
	}
	s.At.Fail("write ether broadcast or ip broadcast", "only Ethernet and IPv4 have broadcasts")
	return nil
}

// multicast tests for packets to a group.
func (g *generator) multicast(s *syntax.Special) *Block {
	switch s.Proto {
	case syntax.ProtoNone, syntax.ProtoLink:
		g.requireEthernet(s.At)
		return g.ethernet(New(cbpf.Jset, 1, g.load(field{fromLink, 0}, cbpf.SizeB)...))
	case syntax.ProtoIP:
		ip := g.linkIs(s.At, names.EtherIP)
		return And(ip, g.compare(field{fromNetwork, 16}, cbpf.SizeB, cbpf.OpJge, 224))
	case syntax.ProtoIP6:
		ip := g.linkIs(s.At, names.EtherIP6)
		return And(ip, g.equal(field{fromNetwork, 24}, cbpf.SizeB, 255))
	}
	s.At.Fail("write ether, ip or ip6 multicast", "only Ethernet, IPv4 and IPv6 have multicasts")
	return nil
}
