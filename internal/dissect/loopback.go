package dissect

import (
	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/headers"
)

var families = map[uint32]string{2: "IPv4", 6: "NS", 7: "ISO", 16: "Appletalk", 23: "IPX", 24: "IPv6", 28: "IPv6", 30: "IPv6"}

// bsdLoopback appends a packet that begins with an address family, and returns the size of that
// header.
func (d *Dissector) bsdLoopback(b []byte, length int) (header int) {
	d.proto = "null"
	const size = 4
	if !d.has(b, size) {
		return len(b)
	}
	family := headers.Family(b)
	b = b[size:]
	name := func(length int) {
		if d.o.Quiet {
			d.add(lookUp(families, uint32(family), "Unknown AF %d"))
		} else {
			d.addf("AF %s (%d)", lookUp(families, uint32(family), "Unknown"), family)
		}
		d.addf(", length %d: ", length)
	}
	if d.o.LinkLevel {
		name(length)
	}
	switch typ, ok := family.EtherType(); {
	case ok:
		d.payload(layers.EthernetType(typ), b, length-size)
	case family == 7 || family == 16 || family == 23: // tcpdump prints more of these
		if !d.o.LinkLevel {
			name(length)
		}
	default:
		if !d.o.LinkLevel {
			name(length)
		}
		d.unknown(b)
	}
	return size
}
