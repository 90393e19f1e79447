package cbpf

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// maxChain is the maximum number of headers before the protocol. libpcap makes a loop without a
// limit, which the kernel refuses; RFC 8200 defines six extension headers, one of which may occur
// twice.
const maxChain = 8

// protochain tests for a protocol behind any extension headers of IPv6, or behind authentication
// headers.
func (g *generator) protochain(t syntax.Token, v uint32, in syntax.Proto) *block {
	checkMax(t, "protocol number", v, 0xff)
	if in == syntax.ProtoNone {
		ip := g.protochain(t, v, syntax.ProtoIP)
		return or(ip, g.protochain(t, v, syntax.ProtoIP6))
	}
	c := chain{g, v, g.slot(t), g.slot(t)}
	defer g.free(c.next)
	defer g.free(c.at)
	etherType, length, protocol, skip := uint32(EtherIP), g.ipv4Length(), uint32(9), []uint32{IPAH}
	if in == syntax.ProtoIP6 {
		etherType, length, protocol = EtherIP6, g.ipv6Length(), 6
		skip = append(skip, IPHopByHop, IPRouting, IPFragment, IPDestination)
	}
	begin := slices.Concat(length, []*stmt{op(Stx, uint32(c.at))},
		g.load(field{fromNetwork, protocol}, SizeB), []*stmt{op(St, uint32(c.next))})
	return and(g.linkIs(t, etherType), and(always(true, begin...), c.find(0, skip)))
}

// chain is the search for a protocol. next is the scratch word with the protocol of the next
// header, and at has the variable part of that header's position.
type chain struct {
	g        *generator
	wanted   uint32
	next, at int
}

// find tests the next header and, if it is one of the headers that can be skipped, the headers
// after it.
func (c *chain) find(skipped int, skip []uint32) *block {
	found := c.is(c.wanted)
	if skipped == maxChain {
		return found
	}
	var behind *block
	for _, header := range skip {
		behind = or(behind, and(c.is(header), c.skip(header)))
	}
	return or(found, and(behind, c.find(skipped+1, skip)))
}

func (c *chain) is(header uint32) *block {
	return newBlock(Jeq, header, op(LdMem, uint32(c.next)))
}

// skip moves past a header: its first byte is the next one's protocol, and its second one its
// length without the first 8 bytes, in units of 8 bytes; of an authentication header in units of 4.
func (c *chain) skip(header uint32) *block {
	start := c.g.payload.constant + c.g.toNetwork
	length := []*stmt{op(Add, 1), op(Lsh, 3)}
	if header == IPAH {
		length = []*stmt{op(Add, 2), op(Lsh, 2)}
	}
	stmts := []*stmt{op(LdxMem, uint32(c.at)), op(LdInd|SizeB, start), op(St, uint32(c.next)),
		op(LdInd|SizeB, start+1)}
	stmts = append(append(stmts, length...), op(AddX, 0), op(St, uint32(c.at)))
	return always(true, stmts...)
}
