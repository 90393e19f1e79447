package dissect

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// First headers of a packet other than Ethernet's.

// cookedKinds are the kinds of packets in a cooked header.
var cookedKinds = map[uint16]string{0: "In", 1: "B", 2: "M", 3: "P", 4: "Out"}

// Types in a cooked header that are not EtherTypes.
const cooked8023, cookedLLC = 1, 4

// A cookedHeader is the header that `tcpdump -i any` writes instead of a link header, in either
// version.
type cookedHeader struct {
	isSecond bool // version
	typ      uint16
	kind     string
	mac      []byte // nil = it does not have 6 bytes
	index    uint32 // of the interface, in the second version
	length   int    // of the packet with the header
}

// cooked appends a packet of length bytes that begins with a cooked header. The file does not have
// the interface's name, so the line has its index. tcpdump shows the name of this machine's
// interface with that index, which may be the wrong one.
func (d *Dissector) cooked(b []byte, length int, version headers.Link) {
	h := cookedHeader{isSecond: version == headers.Cooked2, length: length}
	d.proto = "sll"
	if h.isSecond {
		d.proto = "sll2"
	}
	typ, size, ok := version.Header(b)
	if !ok {
		d.linkHeader(len(b))
		d.truncated() // does not return: it ends the line
	}
	d.linkHeader(size)
	kind, addressSize, address := d.u16(b, 0), d.u16(b, 4), b[6:]
	if h.isSecond {
		kind, addressSize, address, h.index = uint16(b[10]), uint16(b[11]), b[12:], d.u32(b, 4)
	}
	h.typ, h.kind = typ, lookUp(cookedKinds, kind, "?")
	if addressSize == 6 {
		h.mac = address[:6]
	}
	if h.isSecond {
		d.addf("%-5s %-3s ", fmt.Sprint("if", h.index), h.kind)
	}
	if d.o.LinkLevel {
		d.cookedHeader(&h)
	}
	d.cookedPayload(&h, b[size:], length-size)
}

// cookedHeader appends the header, as -e shows it.
func (d *Dissector) cookedHeader(h *cookedHeader) {
	if h.isSecond {
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
		d.addf("ethertype Unknown (0x%04x)", h.typ)
	default:
		d.etherType(h.typ)
	}
	d.addf(", length %d: ", h.length)
}

// cookedPayload appends the payload after the header.
func (d *Dissector) cookedPayload(h *cookedHeader, b []byte, length int) {
	typ := h.typ
	for ; typ == etherVLAN; b, length = b[4:], length-4 {
		d.proto = "vlan"
		d.linkHeader(min(4, len(b)))
		d.require(b, 4)
		d.spend(8) // per tag, which may print no text, so that many tags end the line
		d.vlan(d.u16(b, 0))
		if typ = d.u16(b, 2); typ <= maxEthernetLength {
			typ = cookedLLC
		}
		if !d.o.Quiet {
			d.addf("ethertype %s, ", lookUp(etherNames, typ, "Unknown"))
		}
	}
	switch {
	case typ == cooked8023: // NetWare's IPX, which is not decoded
	case typ == cookedLLC:
		d.llc(b, length, nil, nil)
	case typ <= maxEthernetLength:
		d.unknown(b)
	case d.payload(typ, b, length), undecoded[typ]: // appended, or of a type that is not printed
	default:
		if !d.o.LinkLevel {
			d.cookedHeader(h)
		}
		d.unknown(b)
	}
}

// raw appends a packet that begins with an IP header.
func (d *Dissector) raw(b []byte, length int) {
	d.proto = "ip"
	if d.o.LinkLevel {
		d.add("ip: ")
	}
	switch version := d.u8(b, 0) >> 4; version {
	case 4:
		d.ipv4(b, length)
	case 6:
		d.ipv6(b, length)
	default:
		d.addf("unknown ip %d", version)
	}
}

// bsdFamilies are the names of the address families of BSD's loopback.
var bsdFamilies = map[uint32]string{2: "IPv4", 6: "NS", 7: "ISO", 16: "Appletalk", 23: "IPX", 24: "IPv6", 28: "IPv6", 30: "IPv6"}

// bsdLoopback appends a packet that begins with an address family.
func (d *Dissector) bsdLoopback(b []byte, length int) {
	d.proto = "null"
	const size = 4
	d.linkHeader(min(size, len(b)))
	d.require(b, size)
	family := headers.Family(b)
	typ, isIP := family.EtherType()
	if d.o.LinkLevel || !isIP {
		if d.o.Quiet {
			d.add(lookUp(bsdFamilies, uint32(family), "Unknown AF %d"))
		} else {
			d.addf("AF %s (%d)", lookUp(bsdFamilies, uint32(family), "Unknown"), family)
		}
		d.addf(", length %d: ", length)
	}
	switch {
	case isIP:
		d.payload(typ, b[size:], length-size)
	case family == 7 || family == 16 || family == 23: // tcpdump prints more of these
	default:
		d.unknown(b[size:])
	}
}

var (
	wifiKinds    = map[uint8]string{headers.WiFiManagement: "Management", headers.WiFiControl: "Control", headers.WiFiData: "Data"}
	wifiManaging = map[uint8]string{0: "Assoc Request", 1: "Assoc Response", 2: "ReAssoc Request", 3: "ReAssoc Response", 4: "Probe Request",
		5: "Probe Response", 8: "Beacon", 9: "ATIM", 10: "Disassociation", 11: "Authentication", 12: "DeAuthentication", 13: "Action"}
	wifiControl = map[uint8]string{8: "BAR", 9: "BA", 10: "Power Save-Poll", 11: "Request-To-Send", 12: "Clear-To-Send",
		13: "Acknowledgment", 14: "CF-End", 15: "CF-End+CF-Ack"}
)

// wifi appends an IEEE 802.11 frame: its kind, its addresses and its length, or the data of a frame
// that is not encrypted. tcpdump prints more of these frames.
func (d *Dissector) wifi(b []byte, length int, typ headers.Link) {
	d.proto = "802.11"
	f, ok := typ.Frame(b)
	if !ok {
		d.linkHeader(len(b))
		d.truncated() // does not return: it ends the line
	}
	d.linkHeader(f.Size)
	if !f.Protected && len(f.Data) >= 3 {
		if d.o.LinkLevel {
			d.wifiAddresses(&f)
			d.addf(", length %d: ", length)
		}
		d.llc(f.Data, length-f.Size, f.Source, f.Destination)
		return
	}
	name := wifiKinds[f.Kind]
	switch f.Kind {
	case headers.WiFiManagement:
		name = lookUp(wifiManaging, f.Subtype, "Management")
	case headers.WiFiControl:
		name = lookUp(wifiControl, f.Subtype, "Control")
	}
	d.addf("802.11 %s", name)
	if f.Protected {
		d.add(", encrypted")
	}
	d.add(", ")
	d.wifiAddresses(&f)
	d.addf(", length %d", length)
}

// wifiAddresses appends the source, if there is one, and the destination.
func (d *Dissector) wifiAddresses(f *headers.WiFiFrame) {
	if f.Source != nil {
		d.addf("%s ", d.mac(f.Source, 0))
	}
	if f.Destination != nil {
		d.addf("> %s", d.mac(f.Destination, 0))
	}
}
