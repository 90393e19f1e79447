package headers

import (
	"encoding/binary"
	"slices"
)

// A Link is the kind of the first header of packets: a link type of capture files.
type Link int

const (
	Ethernet Link = iota
	Cooked        // LINUX_SLL, of tcpdump -i any before 2019
	Cooked2       // LINUX_SLL2, with the index of the interface
	Raw           // an IP header, of either version
	Loopback      // NULL and LOOP, of BSD's loopback: an address family
	UnknownLink

	// The following types are decoded, but filters do not support them.

	WiFi     // an IEEE 802.11 frame
	Radiotap // one after a header about how it was received
)

// LinkToDecode is like LinkOf, but includes the types that filters do not support.
func LinkToDecode(number uint16) Link {
	switch number {
	case 105:
		return WiFi
	case 127:
		return Radiotap
	}
	return LinkOf(number)
}

// LinkOf returns the type for a LINKTYPE_ number of capture files, if filters support it; else
// UnknownLink.
func LinkOf(number uint16) Link {
	switch number {
	case 1:
		return Ethernet
	case 113:
		return Cooked
	case 276:
		return Cooked2
	case 12, 14, 101, 228, 229: // 12 and 14 come from systems with their own numbers
		return Raw
	case 0, 108:
		return Loopback
	}
	return UnknownLink
}

// LinkNumbers is a LINKTYPE_ number of each type that filters support.
var LinkNumbers = [...]uint16{Ethernet: 1, Cooked: 113, Cooked2: 276, Raw: 101, Loopback: 108}

// LinkNames are the names of the types in messages.
var LinkNames = [...]string{Ethernet: "Ethernet", Cooked: "Linux cooked v1", Cooked2: "Linux cooked v2", Raw: "raw IP",
	Loopback: "BSD loopback"}

// Header returns the EtherType of the header after the packet's first header (for raw IP, that of
// the IP version), and the first header's size. It returns false if the packet ends before, or if
// the next header has no EtherType.
func (t Link) Header(packet []byte) (etherType uint16, size int, ok bool) {
	at := 0
	switch t {
	case Ethernet:
		at, size = 12, 14
	case Cooked:
		at, size = 14, 16
	case Cooked2:
		at, size = 0, 20
	case Raw:
		if len(packet) == 0 {
			return 0, 0, false
		}
		switch packet[0] >> 4 {
		case 4:
			etherType = 0x0800
		case 6:
			etherType = 0x86dd
		}
		return etherType, 0, true
	case Loopback:
		etherType, ok = Family(packet).EtherType()
		return etherType, familySize, ok
	case WiFi, Radiotap:
		return t.wifiHeader(packet)
	default:
		return 0, 0, false
	}
	if len(packet) < size {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(packet[at:]), size, true
}

const familySize = 4 // bytes of Loopback's header

// An AddressFamily is the value of Loopback's header, by BSD's numbers.
type AddressFamily uint32

// Families are the numbers of each version of IP, by its EtherType: NetBSD and OpenBSD have 24 for
// IPv6, FreeBSD 28, and Darwin 30.
var Families = map[uint16][]AddressFamily{0x0800: {2}, 0x86dd: {24, 28, 30}}

// Family reads Loopback's header in either byte order, since families are small numbers. NULL has
// the order of the host that captured and LOOP that of the network, but a program that copies NULL
// into a file of the other order does not swap it. Family returns 0 if the packet ends before.
func Family(packet []byte) AddressFamily {
	if len(packet) < familySize {
		return 0
	}
	family := binary.LittleEndian.Uint32(packet)
	if family&0xffff0000 != 0 {
		family = binary.BigEndian.Uint32(packet)
	}
	return AddressFamily(family)
}

// EtherType returns the EtherType for IP of either version.
func (f AddressFamily) EtherType() (etherType uint16, ok bool) {
	for etherType, families := range Families {
		if slices.Contains(families, f) {
			return etherType, true
		}
	}
	return 0, false
}

// Addresses returns the MAC addresses of a packet; nil = its type has no MAC addresses, or it ends
// before them.
func (t Link) Addresses(packet []byte) (destination, source []byte) {
	switch t {
	case Ethernet:
		if len(packet) >= 12 {
			return packet[:6], packet[6:12]
		}
	case WiFi, Radiotap:
		if frame, ok := t.Frame(packet); ok {
			return frame.Destination, frame.Source
		}
	}
	return nil, nil
}

// Sent reports whether this host has sent a packet, if a cooked header contains that.
func (t Link) Sent(packet []byte) (sent, known bool) {
	kind := uint16(0)
	switch {
	case t == Cooked && len(packet) >= 2:
		kind = binary.BigEndian.Uint16(packet)
	case t == Cooked2 && len(packet) >= 11:
		kind = uint16(packet[10])
	default:
		return false, false
	}
	const outgoing = 4
	return kind == outgoing, kind <= outgoing
}

// Index returns the index of the interface in the header of Cooked2, on the host that captured the
// packet. It returns false for other types, and if the packet ends before.
func (t Link) Index(packet []byte) (index uint32, ok bool) {
	if t != Cooked2 || len(packet) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint32(packet[4:]), true
}
