// Package headers parses the headers that identify a packet's conversation, mostly in an Ethernet
// frame: VLANs, addresses, protocol and ports. It also names protocols and EtherTypes, and has the
// link types of capture files whose packets carry IP: the position of the next header's type in the
// first header, and the first header's length.
package headers

import (
	"encoding/binary"
	"net/netip"
)

// Protocols of IP that have ports, or a hash of their own.
const (
	ICMP    = 1
	TCP     = 6
	UDP     = 17
	DCCP    = 33
	ICMPv6  = 58
	SCTP    = 132
	UDPLite = 136
)

// maxVLANs is the number of VLAN tags that are kept.
const maxVLANs = 8

// Headers are the fields of a frame's headers, as far as its bytes go.
type Headers struct {
	Tags      int              // number of VLAN tags; at most 8 are used
	VLANs     [maxVLANs]uint16 // their ids, the outermost first
	EtherType uint16           // after the tags; 0 = the frame has a length instead

	// Family is 4 or 6 if there is a whole IP header. IPv6's protocol is the one after the
	// extension headers.
	Family              int
	Protocol            uint8
	Source, Destination netip.Addr

	// Fragment means that the packet is an IP fragment. It then has no Rest, not even in the first
	// fragment, so that all fragments are treated alike.
	Fragment bool
	Rest     []byte // the protocol's header and all bytes after it; its memory is the frame's

	// IP begins with the IP header, and Piece, for a fragment, with the first byte after IP's
	// headers: for IPv6 with the fragment header. Their memory is the frame's. nil = there is no
	// such header.
	IP, Piece []byte
}

// Parse reads the headers of a packet of the given link type. It returns false if they end before
// the EtherType.
func Parse(typ Link, packet []byte, h *Headers) bool {
	*h = Headers{}
	etherType, size, ok := typ.Header(packet)
	if !ok {
		return false
	}
	b := packet[size:]
	for h.EtherType = etherType; IsTag(h.EtherType); b = b[4:] {
		if len(b) < 2 {
			return false
		}
		if h.Tags < maxVLANs {
			h.VLANs[h.Tags] = binary.BigEndian.Uint16(b) & 0xfff
			h.Tags++
		}
		if len(b) < 4 {
			return false
		}
		h.EtherType = binary.BigEndian.Uint16(b[2:])
	}
	switch h.EtherType {
	case 0x0800:
		h.ipv4(b)
	case 0x86dd:
		h.ipv6(b)
	}
	if h.EtherType < 0x600 {
		h.EtherType = 0
	}
	return true
}

// IsTag reports whether a VLAN tag follows an EtherType.
func IsTag(etherType uint16) bool {
	return etherType == 0x8100 || etherType == 0x88a8 || etherType == 0x9100 || etherType == 0x9200
}

func (h *Headers) ipv4(b []byte) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return
	}
	h.Family, h.Protocol, h.IP = 4, b[9], b
	h.Source, h.Destination = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	payload := b[min(len(b), int(b[0]&0xf)*4):]
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // more fragments follow, or it is not the first one
		h.Fragment, h.Piece = true, payload
	} else {
		h.Rest = payload
	}
}

func (h *Headers) ipv6(b []byte) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return
	}
	h.Family, h.IP = 6, b
	h.Source, h.Destination = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	const hopByHop, routing, fragment, authentication, destination = 0, 43, 44, 51, 60
	next, rest := b[6], b[40:]
	for len(rest) >= 8 {
		n := 8 + int(rest[1])*8
		switch next {
		case hopByHop, routing, destination:
		case authentication:
			n = 8 + int(rest[1])*4
		case fragment:
			if n = 8; binary.BigEndian.Uint16(rest[2:])&0xfff9 != 0 {
				h.Fragment, h.Piece = true, rest
				n = len(rest) // in a fragment no header follows
			}
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		next, rest = rest[0], rest[min(n, len(rest)):]
	}
	h.Protocol = next
	if !h.Fragment {
		h.Rest = rest
	}
}

// A Datagram identifies the IP datagram that fragments are parts of.
type Datagram struct {
	Source, Destination netip.Addr
	ID                  uint32
	Protocol            uint8 // of IPv4; that of IPv6 is only in the first fragment
}

// Datagram returns the datagram of a fragment, and whether it is the first one. ok is false for
// other packets, and for IPv6 with other headers before that of the fragment.
func (h *Headers) Datagram() (d Datagram, isFirst, ok bool) {
	d.Source, d.Destination = h.Source, h.Destination
	switch {
	case !h.Fragment:
		return d, false, false
	case h.Family == 4:
		d.ID, d.Protocol = uint32(binary.BigEndian.Uint16(h.IP[4:])), h.Protocol
		return d, binary.BigEndian.Uint16(h.IP[6:])&0x1fff == 0, true
	case h.IP[6] != 44:
		return d, false, false
	}
	d.ID = binary.BigEndian.Uint32(h.Piece[4:])
	return d, binary.BigEndian.Uint16(h.Piece[2:])&0xfff8 == 0, true
}

// Ports returns the ports of TCP, UDP, SCTP and the like; 0 = the packet has no ports.
func (h *Headers) Ports() (source, destination uint16) {
	switch h.Protocol {
	case TCP, UDP, DCCP, SCTP, UDPLite:
		if len(h.Rest) >= 4 {
			return binary.BigEndian.Uint16(h.Rest), binary.BigEndian.Uint16(h.Rest[2:])
		}
	}
	return 0, 0
}

// TCPFlags returns the flags of a TCP header: FIN is 1, CWR 128. ok is false if there is no TCP
// header.
func (h *Headers) TCPFlags() (flags uint8, ok bool) {
	if h.Protocol != TCP || len(h.Rest) < 14 {
		return 0, false
	}
	return h.Rest[13], true
}
