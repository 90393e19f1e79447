package dissect

import (
	"fmt"

	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// directions are the kinds of packets in a cooked header.
var directions = map[uint16]string{0: "In", 1: "B", 2: "M", 3: "P", 4: "Out"}

// A cookedHeader is the header that `tcpdump -i any` writes instead of a link header, in either
// version.
type cookedHeader struct {
	second bool
	typ    layers.EthernetType
	kind   string
	mac    []byte // nil = it does not have 6 bytes
	index  uint32 // of the interface, in the second version
	length int    // of the packet with the header
}

// cooked appends a packet of length bytes that begins with a cooked header, and returns the size of
// its headers. The file does not have the interface's name, so the line has its index. tcpdump
// shows the name of this machine's interface with that index, which may be the wrong one.
func (d *Dissector) cooked(b []byte, length int, version headers.Link) (header int) {
	h := cookedHeader{second: version == headers.Cooked2, length: length}
	d.proto = "sll"
	if h.second {
		d.proto = "sll2"
	}
	typ, header, ok := version.Header(b)
	if !ok {
		d.truncated()
		return len(b)
	}
	h.typ = layers.EthernetType(typ)
	kind, halen, address := d.u16(b, 0), d.u16(b, 4), b[6:]
	if h.second {
		kind, halen, address, h.index = uint16(b[10]), uint16(b[11]), b[12:], d.u32(b, 4)
	}
	if h.kind = lookUp(directions, kind, "?"); halen == 6 {
		h.mac = address[:6]
	}
	if h.second {
		d.addf("%-5s %-3s ", fmt.Sprint("if", h.index), h.kind)
	}
	if d.o.LinkLevel {
		d.cookedHeader(&h)
	}
	return header + d.cookedPayload(&h, b[header:], length-header)
}

// cookedHeader appends the header, as -e shows it.
func (d *Dissector) cookedHeader(h *cookedHeader) {
	if h.second {
		d.addf("ifindex %d ", h.index)
	} else {
		d.addf("%3s ", h.kind)
	}
	if h.mac != nil {
		d.addf("%s ", d.mac(h.mac, 0))
	}
	if d.o.Quiet {
		return
	}
	switch {
	case h.typ == cooked8023:
		d.add("802.3")
	case h.typ == cookedLLC:
		d.add("802.2")
	case h.typ <= maxEthernetLength:
		d.addf("ethertype Unknown (0x%04x)", uint16(h.typ))
	default:
		d.etherType(h.typ)
	}
	d.addf(", length %d: ", h.length)
}

// Types in a cooked header that are not EtherTypes.
const cooked8023, cookedLLC = 1, 4

// cookedPayload appends the payload after the header, and returns the size of the headers in it.
func (d *Dissector) cookedPayload(h *cookedHeader, b []byte, length int) (header int) {
	typ := h.typ
	for typ == layers.EthernetTypeDot1Q && !d.ended {
		if len(b) < 4 {
			d.proto = "vlan"
			d.truncated()
			return header + len(b)
		}
		tag := d.u16(b, 0)
		d.spend(8)
		if d.o.LinkLevel {
			d.addf("vlan %d, p %d", tag&0xfff, tag>>13)
			if tag&0x1000 != 0 {
				d.add(", DEI")
			}
			d.add(", ")
		}
		if typ = layers.EthernetType(d.u16(b, 2)); typ <= maxEthernetLength {
			typ = cookedLLC
		}
		if !d.o.Quiet {
			d.addf("ethertype %s, ", lookUp(etherNames, uint16(typ), "Unknown"))
		}
		b, length, header = b[4:], length-4, header+4
	}
	switch {
	case typ == cooked8023: // NetWare's IPX, which is not decoded
	case typ == cookedLLC:
		return header + d.llc(b, length, nil, nil)
	case typ <= maxEthernetLength:
		d.unknown(b)
	case d.payload(typ, b, length), undecoded[typ]:
	default:
		if !d.o.LinkLevel {
			d.cookedHeader(h)
		}
		d.unknown(b)
	}
	return header
}

// raw appends a packet that begins with an IP header.
func (d *Dissector) raw(b []byte, length int) {
	d.proto = "ip"
	if d.o.LinkLevel {
		d.add("ip: ")
	}
	switch version := d.u8(b, 0) >> 4; {
	case d.ended:
	case version == 4:
		d.ipv4(b, length)
	case version == 6:
		d.ipv6(b, length)
	default:
		d.addf("unknown ip %d", version)
	}
}
