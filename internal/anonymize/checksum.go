package anonymize

import "encoding/binary"

// maxSums is the maximum number of checksums that are updated in a packet. Bytes after a further
// one are cut.
const maxSums = 24

// A checksum is an Internet checksum (RFC 1071) in a packet.
type checksum struct {
	field    int // offset of the checksum
	from, to int // offsets of the bytes that it covers

	// The offset and size of the addresses in the pseudo-header; size 0 = there is no
	// pseudo-header.
	addresses, size int

	// The sum of the pseudo-header's other fields. With it, fix recognizes a checksum of the
	// pseudo-header alone, which the card has yet to complete.
	rest uint32

	isUDP bool // then 0 means that there is no checksum, and a sum of 0 is written as 0xffff
}

// add records a checksum that covers rewritten bytes. It returns false if there are too many.
func (r *rewriter) add(s checksum) bool {
	if r.count == len(r.sums) {
		return false
	}
	r.sums[r.count] = s
	r.count++
	return true
}

// fix updates a checksum by the changes in the bytes that it covers (RFC 1624), so that it stays
// right or stays wrong. The bytes after the first `kept` have not changed.
func (r *rewriter) fix(s *checksum, kept int) {
	if s.field+2 > kept {
		return
	}
	old := r.u16(s.field)
	switch {
	case s.isUDP && old == 0:
		return
	case s.size > 0 && old == r.pseudo(r.old, s) && !r.isRight(s):
		// The checksum of the pseudo-header alone, to which the card adds the rest. The update
		// below is for complemented sums, and this one is not complemented.
		binary.BigEndian.PutUint16(r.new[s.field:], r.pseudo(r.new, s))
		return
	}
	sum := uint32(^old) + r.changes(s.from, min(s.to, kept)) + r.changes(s.addresses, s.addresses+s.size)
	sum16 := ^fold(sum)
	if s.isUDP && sum16 == 0 {
		sum16 = 0xffff
	}
	binary.BigEndian.PutUint16(r.new[s.field:], sum16)
}

// changes returns the sum of the changed words between two offsets (~m + m' in RFC 1624), to be
// added to the checksum's complement.
func (r *rewriter) changes(from, to int) (sum uint32) {
	for i := from; i < to; i += 2 {
		before, after := word(r.old[i:to]), word(r.new[i:to])
		if before != after {
			sum += uint32(^before) + uint32(after)
		}
	}
	return sum
}

// pseudo returns the sum of the pseudo-header with the addresses in b, not complemented.
func (r *rewriter) pseudo(b []byte, s *checksum) uint16 {
	return fold(uint32(sumOf(b[s.addresses:s.addresses+s.size])) + s.rest)
}

// isRight reports whether a checksum of the captured packet is right. It returns false if the
// packet is truncated.
func (r *rewriter) isRight(s *checksum) bool {
	if s.to > len(r.packet) {
		return false
	}
	return fold(uint32(r.pseudo(r.old, s))+uint32(sumOf(r.packet[s.from:s.to]))) == 0xffff
}

// sumOf returns the sum of 16-bit words, with the carry added.
func sumOf(b []byte) uint16 {
	sum := uint64(0)
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint64(b[0]) << 8
	}
	return fold(uint32(sum>>16) + uint32(sum&0xffff))
}

// word returns the 16-bit word at the beginning of b, padded with a zero byte if b has only one.
func word(b []byte) uint16 {
	if len(b) == 1 {
		return uint16(b[0]) << 8
	}
	return binary.BigEndian.Uint16(b)
}

// fold adds the carries of a sum to its lower 16 bits.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
