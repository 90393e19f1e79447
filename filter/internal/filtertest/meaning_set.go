package filtertest

import (
	"net/netip"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Elements are the elements of a set.
type Elements struct {
	Prefixes []netip.Prefix
	Ports    []uint16
}

// addressIn tests for an address in a set: in the headers of IPv4, ARP, RARP and IPv6, or in one.
func (w *walk) addressIn(p *syntax.Primitive) bool {
	prefixes := w.Sets[p.At.SetName()].Prefixes
	in := func(proto syntax.Proto, etherType uint32, src, dst uint64, bytes int) bool {
		if p.Qual.Proto != syntax.ProtoNone && p.Qual.Proto != proto {
			return false
		}
		return directed(p.Qual.Dir, func(source bool) bool {
			at := w.place.body + dst
			if source {
				at = w.place.body + src
			}
			if !w.linkIs(etherType) {
				return false
			}
			w.number(at+uint64(bytes-4), 4) // the packet may end before
			a, _ := netip.AddrFromSlice(w.pkt[at : at+uint64(bytes)])
			return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
		})
	}
	return in(syntax.ProtoIP, 0x800, 12, 16, 4) ||
		w.place.labels == 0 && (in(syntax.ProtoARP, 0x806, 14, 24, 4) || in(syntax.ProtoRARP, 0x8035, 14, 24, 4)) ||
		in(syntax.ProtoIP6, 0x86dd, 8, 24, 16)
}
