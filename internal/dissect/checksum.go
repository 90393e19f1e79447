package dissect

import (
	"encoding/binary"
	"math/bits"
)

// sum adds b to a sum of 16-bit words, eight bytes at a time: the grouping of words does not change
// a ones' complement sum.
func sum(b []byte, start uint64) uint64 {
	total, carry := start, uint64(0)
	for len(b) >= 8 {
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(last[:]), carry)
	}
	total, carry = bits.Add64(total, 0, carry)
	return total + carry
}

// checksum returns the Internet checksum of b plus an earlier sum. It is 0 over bytes that include
// their correct checksum.
func checksum(b []byte, start uint64) uint16 {
	total := sum(b, start)
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}

// rightSum returns the correct checksum, computed from the one in the packet and from the sum that
// includes it.
func rightSum(was, computed uint16) uint16 {
	total := uint32(was) + uint32(computed)
	return uint16(total>>16 + total)
}

// pseudoHeader returns the sum of the IP header fields that the checksum of an upper protocol
// covers.
func (n *network) pseudoHeader(length int, proto uint8) uint64 {
	total := sum(n.src, uint64(length)+uint64(proto))
	return sum(n.finalDst, total)
}

// isUnfinished reports whether an upper protocol's checksum is the sum of the pseudo-header alone.
// The kernel leaves that in packets whose checksum a card is to compute. The other end of a veth
// pair gets them like that, and GRO makes such packets.
func (n *network) isUnfinished(was uint16, length int, proto uint8) bool {
	return was == ^checksum(nil, n.pseudoHeader(length, proto))
}
