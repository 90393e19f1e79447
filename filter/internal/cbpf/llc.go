package cbpf

import (
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// llcTypes are the control fields of 802.2 by name: the value, and the bits that are compared. A
// frame of type i is one whose lowest bit is 0.
var llcTypes = map[string]struct{ value, mask uint32 }{
	"s": {1, 3}, "u": {3, 3}, "rr": {1, 0x0f}, "rnr": {5, 0x0f}, "rej": {9, 0x0f}, "ui": {0x03, 0xef}, "ua": {0x63, 0xef},
	"disc": {0x43, 0xef}, "dm": {0x0f, 0xef}, "sabme": {0x6f, 0xef}, "test": {0xe3, 0xef}, "xid": {0xaf, 0xef},
	"frmr": {0x87, 0xef}}

// llc tests for an 802.2 header, with a length in place of an EtherType and without Novell's 0xffff
// after it, and for its kind of frame.
func (g *generator) llc(s *syntax.Special) *block {
	g.requireEthernet(s.At)
	b := not(g.compare(field{fromType, 0}, SizeH, OpJgt, MaxLength))
	b = and(b, not(g.equal(field{fromLLC, 0}, SizeH, 0xffff)))
	if s.Name == "" {
		return b
	}
	control := field{fromLLC, 2}
	name := strings.ToLower(s.Name)
	if name == "i" {
		return and(b, not(newBlock(Jset, 1, g.load(control, SizeB)...)))
	}
	typ, ok := llcTypes[name]
	if !ok {
		s.ArgAt.Fail("one of i s u rr rnr rej ui ua disc dm sabme test xid frmr", "unknown type of LLC frame")
	}
	return and(b, g.masked(control, SizeB, typ.value, typ.mask))
}
