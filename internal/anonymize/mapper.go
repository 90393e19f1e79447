package anonymize

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// A mapper maps addresses to others by Crypto-PAn, the algorithm of J. Xu, J. Fan, M. Ammar and S.
// Moon, "Prefix-Preserving IP Address Anonymization" (ICNP 2002): two addresses that have exactly
// their first n bits in common are mapped to two addresses that have exactly n bits in common. A
// bit of an address is flipped if the first bit of an AES block is 1, whose input has the earlier
// bits of the address. Also 0.0.0.0 and multicast addresses are mapped, so that other
// implementations map all addresses to the same ones with the same key.
//
// Where a bit of the address equals that of the padding, the AES block of the next bit is the same,
// as in the published algorithm. Therefore about one of 15,000 IPv4 addresses is mapped to itself.
// A reader without the key cannot find out which.
//
// MAC addresses are mapped in the same way, with another padding, to which the number of the bit is
// added so that each block is different. The multicast bit and the locally administered bit are
// kept, and so are the broadcast address and zero. A mapper belongs to one goroutine, and allocates
// no memory per address.
type mapper struct {
	block   cipher.Block
	ip, mac [aes.BlockSize]byte // paddings: inputs of AES, whose first bits are replaced

	in, out [aes.BlockSize]byte      // memory for flip
	recent  [1 << recentBits]mapping // cache, by slot
}

// recentBits is the logarithm of the number of mapped addresses in the cache. A cached address
// costs a look-up instead of an AES block for each of its bits.
const recentBits = 12

// A mapping is an address and its mapped address. Its size is 0 while the cache entry is empty.
type mapping struct {
	from, to [16]byte
	size     int
}

// newMapper returns a mapper for a key: AES-128 with its first half, and the padding from the
// other.
func newMapper(key *Key) *mapper {
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err) // never: the size is right
	}
	m := &mapper{block: block}
	block.Encrypt(m.ip[:], key[16:])
	block.Encrypt(m.mac[:], m.ip[:])
	return m
}

// Address maps an address in place: 4 bytes for IPv4, 16 for IPv6, 6 for a MAC address.
func (m *mapper) Address(a []byte) {
	const macSize = 6
	if len(a) == macSize && isReserved(a) {
		return
	}
	var from [16]byte
	copy(from[:], a)
	r := &m.recent[slot(&from, len(a))]
	if r.size == len(a) && r.from == from {
		copy(a, r.to[:])
		return
	}
	if len(a) != macSize {
		m.flip(a, &m.ip, false)
	} else {
		// An address that becomes a reserved one is mapped again, so that the mapping stays one to
		// one: no address is mapped to a reserved one.
		for m.flip(a, &m.mac, true); isReserved(a); {
			m.flip(a, &m.mac, true)
		}
	}
	r.from, r.size = from, len(a)
	copy(r.to[:], a)
}

// flip maps an address in place, without the cache.
func (m *mapper) flip(a []byte, padding *[aes.BlockSize]byte, isMAC bool) {
	const kind = 0x03 // in the first byte of a MAC address: multicast, locally administered
	m.in = *padding
	for i := range a {
		flips := byte(0)
		for bit := byte(0x80); bit != 0; bit >>= 1 {
			if isMAC {
				m.in[aes.BlockSize-1]++
			}
			m.block.Encrypt(m.out[:], m.in[:])
			if m.out[0]&0x80 != 0 {
				flips |= bit
			}
			m.in[i] = m.in[i]&^bit | a[i]&bit
		}
		if isMAC && i == 0 {
			flips &^= kind
		}
		a[i] ^= flips
	}
}

// isReserved reports whether a MAC address is broadcast or zero, which belong to no interface.
func isReserved(mac []byte) bool {
	first, second := binary.BigEndian.Uint16(mac), binary.BigEndian.Uint32(mac[2:])
	return first == 0 && second == 0 || first == 0xffff && second == 0xffffffff
}

// slot returns an address's index in the cache.
func slot(a *[16]byte, size int) int {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: multiplicative hashing
	h := (binary.LittleEndian.Uint64(a[:8]) + uint64(size)) * odd
	h = (h ^ h>>32 ^ binary.LittleEndian.Uint64(a[8:])) * odd
	return int(h >> (64 - recentBits))
}
