package lab

import (
	"encoding/binary"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Addresses of hosts that are not there: beside the sending side, and behind out0 (see forward).
var (
	neighbour  = net.IP{192, 0, 2, 77}
	beyond     = net.IP{198, 51, 100, 2}
	beyond6    = net.ParseIP("2001:db8:1::2")
	elsewhere  = net.IP{203, 0, 113, 9}
	elsewhere6 = net.ParseIP("2001:db8:9::9")
)

// A packet is one of IP to the receiving side. The zero value of a field is what is right.
type packet struct {
	to       net.HardwareAddr // the receiving side's
	src, dst net.IP           // those of the sending and of the receiving side
	protocol byte             // UDP
	ttl      byte             // 64
	id, frag uint16           // of IPv4: the second has the flags, too
	options  []byte           // of IPv4
	version  byte             // the first byte
	length   int              // as the header says
	sum      uint16           // added to the checksum of IPv4's header
	payload  []byte           // a datagram to port 9, which nobody has
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func or[T comparable](a, b T) T {
	var zero T
	if a == zero {
		return b
	}
	return a
}

// frame builds the packet, of IPv6 if that is an address.
func (p packet) frame() []byte {
	v6 := p.src != nil && p.src.To4() == nil || p.dst != nil && p.dst.To4() == nil
	if p.src == nil {
		p.src = testnet.TxEndpoint.IPv4
		if v6 {
			p.src = testnet.TxEndpoint.IPv6
		}
	}
	if p.dst == nil {
		p.dst = testnet.RxEndpoint.IPv4
		if v6 {
			p.dst = testnet.RxEndpoint.IPv6
		}
	}
	p.protocol, p.ttl = or(p.protocol, unix.IPPROTO_UDP), or(p.ttl, 64)
	if p.payload == nil {
		p.payload = datagram(9, 100)
		if v6 {
			p.payload = sealed(p.protocol, p.src, p.dst, 6, p.payload)
		}
	}
	if p.to == nil {
		p.to = testnet.RxEndpoint.MAC
	}
	if v6 {
		return p.ipv6()
	}
	h := make([]byte, 20, 60)
	h = append(h, p.options...)
	h[0] = or(p.version, byte(0x40|len(h)/4))
	binary.BigEndian.PutUint16(h[2:], uint16(or(p.length, len(h)+len(p.payload))))
	binary.BigEndian.PutUint16(h[4:], p.id)
	binary.BigEndian.PutUint16(h[6:], p.frag)
	h[8], h[9] = p.ttl, p.protocol
	copy(h[12:], p.src.To4())
	copy(h[16:], p.dst.To4())
	binary.BigEndian.PutUint16(h[10:], checksum(h)+p.sum)
	return ethernet(p.to, unix.ETH_P_IP, h, p.payload)
}

func (p packet) ipv6() []byte {
	h := make([]byte, 40)
	h[0] = or(p.version, 0x60)
	binary.BigEndian.PutUint16(h[4:], uint16(or(p.length, len(p.payload))))
	h[6], h[7] = p.protocol, p.ttl
	copy(h[8:], p.src.To16())
	copy(h[24:], p.dst.To16())
	return ethernet(p.to, unix.ETH_P_IPV6, h, p.payload)
}

// ethernet builds a frame of the sending side.
func ethernet(to net.HardwareAddr, kind uint16, parts ...[]byte) []byte {
	return slices.Concat(to, testnet.TxEndpoint.MAC, []byte{byte(kind >> 8), byte(kind)}, slices.Concat(parts...))
}

// datagram is one of UDP with that many bytes, without a checksum.
func datagram(port uint16, size int) []byte {
	d := make([]byte, 8+size)
	binary.BigEndian.PutUint16(d, 1000)
	binary.BigEndian.PutUint16(d[2:], port)
	binary.BigEndian.PutUint16(d[4:], uint16(len(d)))
	return d
}

// sealed adds a checksum, at that position, which includes the addresses.
func sealed(protocol byte, src, dst net.IP, at int, data []byte) []byte {
	data = slices.Clone(data)
	data[at], data[at+1] = 0, 0
	if v4 := src.To4(); v4 != nil {
		src, dst = v4, dst.To4()
	}
	sum := checksum(src, dst, []byte{0, protocol, byte(len(data) >> 8), byte(len(data))}, data)
	binary.BigEndian.PutUint16(data[at:], or(sum, 0xffff))
	return data
}

// checksum is that of IP. All parts but the last have an even length.
func checksum(parts ...[]byte) uint16 {
	sum := uint32(0)
	for i, b := range slices.Concat(parts...) {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
