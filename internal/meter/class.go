package meter

import "github.com/xdpcap/xdpcap/internal/headers"

// A Class is a kind of packets: the upper-layer protocol of IPv4, or of IPv6 after its extension
// headers; the EtherType of all other packets; or packets that are too short to have one.
type Class uint32

// Truncated is the class of packets that end before their protocol is known.
const Truncated = Class(protocolsClassTRUNCATED)

// noRoom is the class of packets whose EtherType found the table of EtherTypes full.
const noRoom = Class(protocolsClassNO_ROOM)

// IPv4 is the class of an IPv4 packet of this protocol.
func IPv4(protocol uint8) Class { return Class(protocolsClassV4) + Class(protocol) }

// IPv6 is the class of an IPv6 packet of this upper-layer protocol.
func IPv6(protocol uint8) Class { return Class(protocolsClassV6) + Class(protocol) }

// EtherType is the class of packets that are not IP. EtherType(0) is for those with a length
// instead of the type.
func EtherType(t uint16) Class { return Class(protocolsClassOTHER) + Class(t) }

// ClassOf is the class of a packet, whose headers it reads into h.
func ClassOf(typ headers.Link, packet []byte, h *headers.Headers) Class {
	switch whole := headers.Parse(typ, packet, h); {
	case !whole:
		return Truncated
	case h.Family == 4:
		return IPv4(h.Protocol)
	case h.Family == 6:
		return IPv6(h.Protocol)
	}
	return EtherType(h.EtherType)
}

// Family is "ipv4", "ipv6" or "other".
func (c Class) Family() string {
	switch {
	case c < Class(protocolsClassV6):
		return "ipv4"
	case c < Truncated:
		return "ipv6"
	}
	return "other"
}

// Number is the IP protocol's number or the EtherType; 0 if there is neither.
func (c Class) Number() int {
	switch {
	case c < Truncated:
		return int(c & 0xff)
	case c >= EtherType(0):
		return int(c - EtherType(0))
	}
	return 0
}

// Protocol is the protocol's name in lower case. Without a name it is the number: decimal for IP
// protocols, hexadecimal for EtherTypes.
func (c Class) Protocol() string {
	switch {
	case c == Truncated:
		return "truncated"
	case c == noRoom:
		return "ethertypes"
	case c >= EtherType(0):
		return string(headers.AppendEtherType(nil, uint16(c.Number())))
	}
	return headers.ProtocolName(uint8(c.Number()))
}

func (c Class) String() string { return c.Family() + " " + c.Protocol() }
