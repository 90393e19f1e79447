package anonymize

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// maxHeaders is the maximum number of bytes kept of a packet.
const maxHeaders = 1024

// A rewriter makes anonymized copies of packets. It belongs to one goroutine, and allocates no
// memory per packet.
type rewriter struct {
	m *mapper

	packet   []byte            // as it was captured
	wire     int               // its length in bytes before truncation
	old, new []byte            // its first bytes, before and after rewriting
	sums     [maxSums]checksum // to be updated, the outermost first
	count    int               // of sums
}

func newRewriter(m *mapper) *rewriter { return &rewriter{m: m} }

// Rewrite copies the headers of a packet that it can parse, with other addresses, and returns their
// length in bytes; the bytes after them are not copied. wireLen is the packet's length before
// truncation. Checksums that were right stay right for the whole packet with the new addresses, and
// wrong ones stay wrong. Rewrite may use all of `to` as memory.
func (r *rewriter) Rewrite(to *[maxHeaders]byte, typ headers.Link, packet []byte, wireLen int) int {
	n := copy(to[:], packet)
	r.packet, r.wire, r.old, r.new, r.count = packet, wireLen, packet[:n], to[:n], 0
	kept := r.link(typ, n)
	for r.count > 0 { // the innermost first, because the outer ones cover it
		r.count--
		r.fix(&r.sums[r.count], kept)
	}
	clear(to[kept:n])
	return kept
}

// link rewrites a packet from its first header on. The functions for the headers after it get two
// offsets: `at`, where their header begins, and `end`, where the packet that contains it ends. They
// return the offset at which the kept bytes end, which is `at` if the header is truncated or
// unknown.
func (r *rewriter) link(typ headers.Link, end int) int {
	etherType, at, ok := typ.Header(r.old)
	if !ok {
		return 0
	}
	switch typ {
	case headers.Ethernet:
		return r.ethernet(0, end)
	case headers.Cooked:
		r.cookedAddress(6, int(r.u16(4)))
	case headers.Cooked2:
		r.cookedAddress(12, int(r.old[11]))
	}
	return r.payload(at, end, etherType)
}

// cookedAddress maps the address in a cooked header. It overwrites addresses other than MAC
// addresses with zeros.
func (r *rewriter) cookedAddress(at, size int) {
	const room = 8
	if size != 6 {
		clear(r.new[at : at+room])
		return
	}
	r.address(at, size)
	clear(r.new[at+size : at+room])
}

func (r *rewriter) ethernet(at, end int) int {
	const size = 14
	if end-at < size {
		return at
	}
	r.address(at, 6)
	r.address(at+6, 6)
	return r.payload(at+size, end, r.u16(at+12))
}

// payload rewrites the bytes after a header with an EtherType.
func (r *rewriter) payload(at, end int, etherType uint16) int {
	switch etherType {
	case 0x8100, 0x88a8, 0x9100, 0x9200:
		if end-at >= 4 {
			return r.payload(at+4, end, r.u16(at+2))
		}
	case 0x0800:
		return r.ipv4(at, end)
	case 0x86dd:
		return r.ipv6(at, end)
	case 0x0806, 0x8035: // ARP and its reverse
		return r.arp(at, end)
	case 0x8847, 0x8848:
		return r.mpls(at, end)
	case 0x8864:
		return r.pppoe(at, end)
	case 0x6558: // in GRE and Geneve
		return r.ethernet(at, end)
	}
	return at
}

func (r *rewriter) arp(at, end int) int {
	const head, size = 8, 28
	switch {
	case end-at < head:
		return at
	case end-at < size || r.u16(at) != 1 || r.u16(at+2) != 0x0800 || r.u16(at+4) != 6<<8|4:
		return at + head
	}
	r.address(at+8, 6)
	r.address(at+14, 4)
	r.address(at+18, 6)
	r.address(at+24, 4)
	return at + size
}

// mpls rewrites labels and the IP packet after them. No label gives the type of the payload, so the
// first bytes of an Ethernet frame may look like an IP header. Therefore an IPv4 header must have a
// right checksum here, and an IPv6 header the right length.
func (r *rewriter) mpls(at, end int) int {
	for isLast := false; !isLast; at += 4 {
		if end-at < 4 {
			return at
		}
		isLast = r.old[at+2]&1 != 0
	}
	const shortest = 64 // bytes of an Ethernet frame that needs no padding
	left := r.wire - at
	switch {
	case end-at >= 20 && r.old[at]>>4 == 4:
		head := int(r.old[at]&15) * 4
		if head >= 20 && head <= end-at && int(r.u16(at+2)) <= left && sumOf(r.old[at:at+head]) == 0xffff {
			return r.ipv4(at, end)
		}
	case end-at >= 40 && r.old[at]>>4 == 6:
		if size := 40 + int(r.u16(at+4)); size == left || size < left && r.wire <= shortest {
			return r.ipv6(at, end)
		}
	}
	return at
}

func (r *rewriter) pppoe(at, end int) int {
	const size = 8 // with the PPP header
	if end-at < size || r.old[at] != 0x11 || r.old[at+1] != 0 {
		return at
	}
	switch r.u16(at + 6) {
	case 0x0021:
		return r.ipv4(at+size, end)
	case 0x0057:
		return r.ipv6(at+size, end)
	}
	return at + size
}

func (r *rewriter) address(at, size int) { r.m.Address(r.new[at : at+size]) }

func (r *rewriter) u16(at int) uint16 { return binary.BigEndian.Uint16(r.old[at:]) }
