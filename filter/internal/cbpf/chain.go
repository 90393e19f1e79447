package cbpf

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// maxChain is the maximum number of skipped headers. libpcap makes a loop without a limit, which
// the kernel refuses. RFC 8200 defines six extension headers, and one of them may occur twice.
const maxChain = 8

// protochain tests for a protocol behind extension headers of IPv6 or authentication headers.
func (g *generator) protochain(t syntax.Token, v uint32, in syntax.Proto) *block {
	checkMax(t, "protocol number", v, 0xff)
	if in == syntax.ProtoNone {
		ip := g.protochain(t, v, syntax.ProtoIP)
		return or(ip, g.protochain(t, v, syntax.ProtoIP6))
	}
	c := chain{g, v, g.slot(t), g.slot(t)}
	defer g.free(c.next)
	defer g.free(c.at)
	etherType, length, protocol, skippable := uint32(EtherIP), g.ipv4Length(), uint32(9), []uint32{IPAH}
	if in == syntax.ProtoIP6 {
		etherType, length, protocol = EtherIP6, g.ipv6Length(), 6
		skippable = append(skippable, IPHopByHop, IPRouting, IPFragment, IPDestination)
	}
	begin := slices.Concat(length, []*stmt{op(Stx, c.at)},
		g.load(field{fromNetwork, protocol}, SizeB), []*stmt{op(St, c.next)})
	return and(g.linkIs(t, etherType), and(always(true, begin...), c.find(0, skippable)))
}

// chain is the search for a protocol.
type chain struct {
	g      *generator
	wanted uint32 // the number of the protocol
	next   uint32 // the scratch word with the protocol of the next header
	at     uint32 // the scratch word with the variable part of that header's position
}

// find tests the next header and, if it is one of the skippable ones, the headers after it.
func (c *chain) find(skipped int, skippable []uint32) *block {
	found := c.isNext(c.wanted)
	if skipped == maxChain {
		return found
	}
	var behind *block
	for _, header := range skippable {
		behind = or(behind, and(c.isNext(header), c.skip(header)))
	}
	return or(found, and(behind, c.find(skipped+1, skippable)))
}

func (c *chain) isNext(header uint32) *block {
	return newBlock(Jeq, header, op(LdMem, c.next))
}

// skip moves behind a header. Its first byte is the protocol of the next header. Its second byte is
// its length without the first 8 bytes in units of 8 bytes; in an authentication header, in units
// of 4 bytes.
func (c *chain) skip(header uint32) *block {
	start := c.g.payload.constant + c.g.toNetwork
	length := []*stmt{op(Add, 1), op(Lsh, 3)}
	if header == IPAH {
		length = []*stmt{op(Add, 2), op(Lsh, 2)}
	}
	stmts := []*stmt{op(LdxMem, c.at), op(LdInd|SizeB, start), op(St, c.next),
		op(LdInd|SizeB, start+1)}
	stmts = append(append(stmts, length...), op(AddX, 0), op(St, c.at))
	return always(true, stmts...)
}
