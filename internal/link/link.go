// Package link knows the link types of capture files whose packets carry IP: where the first header
// has the type of the next one, and how long it is.
package link

import "encoding/binary"

// A Type is the kind of header that a packet begins with.
type Type int

const (
	Ethernet Type = iota
	Cooked        // LINUX_SLL, of tcpdump -i any before 2019
	Cooked2       // LINUX_SLL2, with the index of the interface
	Raw           // an IP header, of either version
	Unknown
)

// Of returns the type for a LINKTYPE_ number of capture files.
func Of(number uint16) Type {
	switch number {
	case 1:
		return Ethernet
	case 113:
		return Cooked
	case 276:
		return Cooked2
	case 12, 14, 101, 228, 229: // 12 and 14 come from systems with their own numbers
		return Raw
	}
	return Unknown
}

// Numbers is a LINKTYPE_ number of each type but Unknown.
var Numbers = [...]uint16{Ethernet: 1, Cooked: 113, Cooked2: 276, Raw: 101}

// Names are the names of the types in messages.
var Names = [...]string{Ethernet: "Ethernet", Cooked: "Linux cooked v1", Cooked2: "Linux cooked v2", Raw: "raw IP"}

// Header returns the EtherType of what follows the packet's first header (for raw IP, that of the
// IP version), and the first header's size. It returns false if the packet ends before.
func (t Type) Header(packet []byte) (etherType uint16, size int, ok bool) {
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
	default:
		return 0, 0, false
	}
	if len(packet) < size {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(packet[at:]), size, true
}
