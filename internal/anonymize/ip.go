package anonymize

import "encoding/binary"

// A layer locates the parts of an IP header that the checksum of its payload covers.
type layer struct {
	addresses, size int // offset and bytes of source and destination together
	length          int // of the payload, by the IP header
}

func (r *rewriter) ipv4(at, end int) int {
	if end-at < 20 || r.old[at]>>4 != 4 {
		return at
	}
	head := int(r.old[at]&15) * 4
	if head < 20 || head > end-at {
		return at
	}
	r.address(at+12, 4)
	r.address(at+16, 4)
	r.options(at+20, at+head, isPlainIPv4)
	if !r.add(checksum{field: at + 10, from: at, to: at + head}) {
		return at
	}
	total := int(r.u16(at + 2))
	switch {
	case total == 0: // a packet that is yet to be segmented may be longer than the field can hold
		total = r.wire - at
	case total < head:
		return at + head
	}
	if r.u16(at+6)&0x1fff != 0 {
		return at + head
	}
	end = min(end, at+total)
	return r.transport(at+head, end, r.old[at+9], layer{at + 12, 8, total - head})
}

// isPlainIPv4 reports whether an option of IPv4 contains no address.
func isPlainIPv4(kind byte) bool { return kind == 148 } // router alert

// options overwrites the values of a header's options with zeros, except those of the kinds that
// isPlain reports free of addresses. It serves TCP and IPv4, whose options have the same format:
// kind 0 ends the list, and kind 1 has no length.
func (r *rewriter) options(at, end int, isPlain func(kind byte) bool) {
	for at < end {
		kind := r.old[at]
		if kind == 1 {
			at++
			continue
		}
		if kind == 0 || at+1 == end || r.old[at+1] < 2 || at+int(r.old[at+1]) > end {
			clear(r.new[at:end])
			return
		}
		size := int(r.old[at+1])
		if !isPlain(kind) {
			clear(r.new[at+2 : at+size])
		}
		at += size
	}
}

func (r *rewriter) ipv6(at, end int) int {
	const size = 40
	if end-at < size || r.old[at]>>4 != 6 {
		return at
	}
	r.address(at+8, 16)
	r.address(at+24, 16)
	length := int(r.u16(at + 4))
	if length == 0 { // a packet that is yet to be segmented, as in ipv4
		length = r.wire - at - size
	}
	last := at + size + length
	end = min(end, last)
	next, p := r.old[at+6], at+size
	for {
		switch next {
		case 0, 60: // options, hop by hop or for the destination
			if end-p < 8 || !r.optionsOfIPv6(p+2, p+8*(1+int(r.old[p+1])), end) {
				return p
			}
			next, p = r.old[p], p+8*(1+int(r.old[p+1]))
		case 44: // a fragment
			if end-p < 8 {
				return p
			}
			isFirst := r.u16(p+2)&^7 == 0
			next, p = r.old[p], p+8
			if !isFirst {
				return p
			}
		default: // also a routing header, which has addresses and changes the checksums
			return r.transport(p, end, next, layer{at + 8, 32, last - p})
		}
	}
}

// optionsOfIPv6 overwrites padding with zeros. It returns false if the options do not end before
// `limit`, or if one of them may contain an address.
func (r *rewriter) optionsOfIPv6(at, end, limit int) bool {
	if end > limit {
		return false
	}
	const pad1, padN, routerAlert, jumbo = 0, 1, 5, 0xc2
	for at < end {
		kind := r.old[at]
		if kind == pad1 {
			at++
			continue
		}
		if end-at < 2 || end-at-2 < int(r.old[at+1]) {
			return false
		}
		size := 2 + int(r.old[at+1])
		switch kind {
		case padN:
			clear(r.new[at+2 : at+size])
		case routerAlert, jumbo:
		default:
			return false
		}
		at += size
	}
	return true
}

func (r *rewriter) transport(at, end int, protocol byte, ip layer) int {
	switch protocol {
	case 1:
		return r.icmp(at, end)
	case 2:
		return r.igmp(at, end)
	case 4:
		return r.ipv4(at, end)
	case 6:
		return r.tcp(at, end, ip)
	case 17:
		return r.udp(at, end, ip)
	case 41:
		return r.ipv6(at, end)
	case 47:
		return r.gre(at, end)
	case 50:
		return r.fixed(at, end, 8) // ESP: index and number
	case 58:
		return r.icmpv6(at, end, ip)
	case 132:
		return r.fixed(at, end, 12) // SCTP's common header, whose checksum does not cover addresses
	}
	return at
}

// fixed keeps a header without addresses, if it is whole.
func (r *rewriter) fixed(at, end, size int) int {
	if end-at < size {
		return at
	}
	return at + size
}

func (r *rewriter) tcp(at, end int, ip layer) int {
	const beginning, size = 8, 20 // an ICMP error may quote only the ports and the sequence number
	if end-at < size {
		return r.fixed(at, end, beginning)
	}
	kept := at + size
	if head := int(r.old[at+12]>>4) * 4; head >= size && head <= end-at {
		r.options(kept, at+head, isPlainTCP)
		kept = at + head
	}
	if !r.add(checksum{field: at + 16, from: at, to: at + ip.length, addresses: ip.addresses, size: ip.size, rest: 6 + uint32(ip.length)}) {
		return at
	}
	return kept
}

// isPlainTCP reports whether an option of TCP contains no address: segment size, window scale,
// selective acknowledgements, time stamps.
func isPlainTCP(kind byte) bool { return kind >= 2 && kind <= 5 || kind == 8 }

func (r *rewriter) udp(at, end int, ip layer) int {
	const size = 8
	if end-at < size || !r.add(checksum{
		field: at + 6, from: at, to: at + ip.length, addresses: ip.addresses, size: ip.size, rest: 17 + uint32(ip.length), isUDP: true,
	}) {
		return at
	}
	switch at += size; r.u16(at - 6) {
	case 4789, 8472: // 8472 is Linux's port from before IANA assigned 4789
		return r.vxlan(at, end)
	case 6081:
		return r.geneve(at, end)
	}
	return at
}

func (r *rewriter) vxlan(at, end int) int {
	const size = 8
	if end-at < size || binary.BigEndian.Uint32(r.old[at:]) != 0x08000000 || r.old[at+7] != 0 {
		return at
	}
	return r.ethernet(at+size, end)
}

func (r *rewriter) geneve(at, end int) int {
	if end-at < 8 || r.old[at]>>6 != 0 {
		return at
	}
	size := 8 + int(r.old[at]&0x3f)*4
	if end-at < size {
		return at
	}
	for p := at + 8; p < at+size; {
		option := 4 + int(r.old[p+3]&0x1f)*4
		if p+option > at+size {
			return at
		}
		clear(r.new[p+4 : p+option])
		p += option
	}
	return r.payload(at+size, end, r.u16(at+2))
}

func (r *rewriter) gre(at, end int) int {
	const hasChecksum, hasRouting, hasKey, hasNumber, version = 0x8000, 0x4000, 0x2000, 0x1000, 7
	if end-at < 4 {
		return at
	}
	flags, size := r.u16(at), 4
	if flags&(hasRouting|version) != 0 {
		return at + 4
	}
	for _, flag := range []uint16{hasChecksum, hasKey, hasNumber} {
		if flags&flag != 0 {
			size += 4
		}
	}
	if end-at < size || flags&hasChecksum != 0 && !r.add(checksum{field: at + 4, from: at, to: end}) {
		return at
	}
	return r.payload(at+size, end, r.u16(at+2))
}
