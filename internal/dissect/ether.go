package dissect

import (
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

const maxEthernetLength = 1500 // above it, the field is a type

// ether appends an Ethernet frame of length bytes; b is the captured part. It returns the size of
// its headers.
func (d *Dissector) ether(b []byte, length int) (header int) {
	d.proto = "ether"
	if len(b) < 14 {
		d.truncated()
		return len(b)
	}
	d.eth.DecodeFromBytes(b, gopacket.NilDecodeFeedback)
	src, dst := d.eth.SrcMAC, d.eth.DstMAC
	frame, tagged := length, false
	if d.o.LinkLevel {
		d.addf("%s > %s, ", src, dst)
	}
	typ := layers.EthernetType(d.u16(b, 12))
	b, length, header = b[14:], length-14, 14
	for isTag(typ) && !d.ended {
		if len(b) < 4 {
			d.proto = "vlan"
			d.truncated()
			return header + len(b)
		}
		d.tag.DecodeFromBytes(b, gopacket.NilDecodeFeedback)
		d.spend(8)
		if d.o.LinkLevel {
			d.etherType(typ)
			d.frameLength(frame, tagged)
			d.addf("vlan %d, p %d", d.tag.VLANIdentifier, d.tag.Priority)
			if d.tag.DropEligible {
				d.add(", DEI")
			}
			d.add(", ")
		}
		tagged, typ = true, d.tag.Type
		b, length, header = b[4:], length-4, header+4
	}
	if typ <= maxEthernetLength {
		length = min(length, int(typ))
		b = limit(b, length)
		if d.o.LinkLevel {
			d.add("802.3")
			if !tagged {
				d.addf(", length %d: ", length)
			}
		}
		return header + d.llc(b, length, src, dst)
	}
	if d.o.LinkLevel {
		d.etherType(typ)
		d.frameLength(frame, tagged)
	}
	if d.payload(typ, b, length) {
		return header
	}
	if !d.o.LinkLevel {
		d.addf("%s > %s, ", src, dst)
		d.etherType(typ)
		d.addf(", length %d", frame)
		if !undecoded[typ] {
			d.add(": ")
		}
	}
	if !undecoded[typ] {
		d.unknown(b)
	}
	return header
}

func isTag(t layers.EthernetType) bool {
	return t == 0x8100 || t == 0x88a8 || t == 0x9100 || t == 0x9200
}

// etherType appends the name of an EtherType.
func (d *Dissector) etherType(t layers.EthernetType) {
	if d.o.Quiet {
		d.add(lookUp(etherNames, uint16(t), "Unknown Ethertype (0x%04x)"))
	} else {
		d.addf("ethertype %s (0x%04x)", lookUp(etherNames, uint16(t), "Unknown"), uint16(t))
	}
}

// frameLength appends the length of the frame, which is shown once, before its first tag.
func (d *Dissector) frameLength(length int, shown bool) {
	if shown {
		d.add(", ")
	} else {
		d.addf(", length %d: ", length)
	}
}

// payload appends the payload of an EtherType. It returns false if it cannot decode that type.
func (d *Dissector) payload(t layers.EthernetType, b []byte, length int) bool {
	switch t {
	case layers.EthernetTypeIPv4:
		d.ipv4(b, length)
	case layers.EthernetTypeIPv6:
		d.ipv6(b, length)
	case layers.EthernetTypeARP, 0x8035:
		d.arp(b, length)
	case layers.EthernetTypeMPLSUnicast, layers.EthernetTypeMPLSMulticast:
		d.mpls(b, length)
	case layers.EthernetTypePPPoEDiscovery, layers.EthernetTypePPPoESession, 0x3c12, 0x3c13:
		d.pppoe(b, length)
	case layers.EthernetTypeLinkLayerDiscovery:
		d.lldp(b, length)
	case 0x8809:
		d.slow(b, length)
	case 0x9000:
		d.loopback(b, length)
	default:
		return false
	}
	return true
}

// loopback appends the Ethernet configuration test protocol.
func (d *Dissector) loopback(b []byte, length int) {
	d.proto = "loopback"
	d.add("Loopback")
	little := func(at int) int { v := d.u16(b, at); return int(v>>8 | v<<8) }
	if length < 2 {
		d.invalid()
		return
	}
	skipCount := little(0)
	d.addf(", skipCount %d", skipCount)
	if skipCount%8 != 0 {
		d.add(" (bogus)")
	}
	if skipCount > length-2 {
		d.invalid()
		return
	}
	b, length = skip(b, 2+skipCount), length-2-skipCount
	if length < 2 {
		d.invalid()
		return
	}
	function := little(0)
	d.addf(", %s", lookUp(map[int]string{1: "Reply", 2: "Forward Data"}, function, " invalid (%d)"))
	b, length = skip(b, 2), length-2
	before := length
	switch function {
	case 1:
		if length < 2 {
			d.invalid()
			return
		}
		d.addf(", receipt number %d", little(0))
		length -= 2
	case 2:
		if length < 6 {
			d.invalid()
			return
		}
		d.addf(", forwarding address %s", d.mac(b, 0))
		length -= 6
	default:
		return
	}
	d.addf(", data (%d octets)", length)
	d.has(skip(b, before-length), length)
}

// llcNames are the names of service access points.
var llcNames = map[uint8]string{0x00: "Null", 0xfe: "OSI", 0x02: "802.1B I", 0x03: "802.1B G", 0x06: "IP", 0x04: "SNA",
	0x0e: "ProWay NM", 0x42: "STP", 0x4e: "RS511", 0x7e: "ISO8208", 0x8e: "ProWay", 0xaa: "SNAP", 0xe0: "IPX",
	0xf0: "NetBeui", 0xff: "Global"}

// llc appends a frame with a length instead of an EtherType, and returns the size of its headers.
// The addresses may be nil.
func (d *Dissector) llc(b []byte, length int, src, dst net.HardwareAddr) (header int) {
	d.proto = "llc"
	if len(b) < 3 {
		d.truncated()
		return len(b)
	}
	dsapField, ssapField := b[0], b[1]
	control, unnumbered := int(b[2]), b[2]&3 == 3
	header = 3
	if !unnumbered {
		if len(b) < 4 {
			d.truncated()
			return len(b)
		}
		control, header = control|int(b[3])<<8, 4
	}
	dsap, ssap := dsapField&^1, ssapField&^1
	rawIPX := dsapField == 0xff && ssapField == 0xff
	if d.o.LinkLevel && !rawIPX {
		d.addf("LLC, dsap %s (0x%02x) %s, ssap %s (0x%02x) %s", lookUp(llcNames, dsap, "Unknown"), dsap,
			[2]string{"Individual", "Group"}[dsapField&1], lookUp(llcNames, ssap, "Unknown"), ssap,
			[2]string{"Command", "Response"}[ssapField&1])
		d.addf(map[bool]string{true: ", ctrl 0x%02x: ", false: ", ctrl 0x%04x: "}[unnumbered], control)
	}
	rest, restLength := b[header:], length-header
	switch {
	case dsap == 0xaa && ssap == 0xaa && control == 3:
		if !d.snap(rest, restLength, src, dst) {
			d.unknown(b)
		}
		return header + 5
	case dsap == 0x42 && ssap == 0x42 && control == 3:
		d.stp(rest, restLength)
		return header
	case dsap == 0x06 && ssap == 0x06 && control == 3:
		d.ipv4(rest, restLength)
		return header
	}
	if !d.o.LinkLevel || rawIPX {
		name := lookUp(llcNames, dsap, "Unknown DSAP 0x%02x")
		switch from := lookUp(llcNames, ssap, "Unknown SSAP 0x%02x"); {
		case src == nil && ssap == dsap:
			d.addf("%s ", name)
		case src == nil:
			d.addf("%s > %s ", from, name)
		case ssap == dsap:
			d.addf("%s > %s %s ", src, dst, name)
		default:
			d.addf("%s %s > %s %s ", src, from, dst, name)
		}
	}
	if rawIPX {
		d.addf("802.3, length %d", length)
		return 0
	}
	poll := func(bit int) string {
		s := [4]string{"Command", "Response", "Poll", "Final"}
		i := int(ssapField & 1)
		if control&bit != 0 {
			i |= 2
		}
		return s[i]
	}
	switch {
	case unnumbered:
		d.addf("Unnumbered, %s, Flags [%s], length %d", lookUp(llcCommands, control&0xef, "%02x"), poll(0x10), length)
		if control&0xef == 0xaf { // exchange identification
			if restLength > 0 && d.u8(rest, 0) == 0x81 {
				d.addf(": %02x %02x", d.u8(rest, 1), d.u8(rest, 2))
				return header
			}
			if restLength == 0 {
				return header
			}
		}
	case control&3 == 1:
		d.addf("Supervisory, %s, rcv seq %d, Flags [%s], length %d",
			[4]string{"Receiver Ready", "Receiver not Ready", "Reject", "?"}[control>>2&3], control>>9&0x7f, poll(0x100), length)
		return header
	default:
		d.addf("Information, send seq %d, rcv seq %d, Flags [%s], length %d", control>>1&0x7f, control>>9&0x7f, poll(0x100), length)
	}
	if !llcUndecoded[dsap] || dsap != ssap {
		d.unknown(b)
	}
	return header
}

var llcCommands = map[int]string{0x03: "ui", 0xe3: "test", 0xaf: "xid", 0x63: "ua", 0x43: "disc", 0x0f: "dm", 0x6f: "sabme", 0x87: "frmr"}

// llcUndecoded has the access points of protocols that tcpdump decodes, and dissect does not.
var llcUndecoded = map[uint8]bool{0xfe: true, 0xe0: true, 0xf0: true}

// ciscoNames are the protocols with Cisco's numbers.
var ciscoNames = map[uint16]string{0x2000: "CDP", 0x2003: "VTP", 0x2004: "DTP", 0x0111: "UDLD", 0x010b: "PVST", 0x010c: "VLAN Bridge"}

// snap appends the content that a SNAP header announces. It returns false if the content is
// unknown.
func (d *Dissector) snap(b []byte, length int, src, dst net.HardwareAddr) bool {
	d.proto = "snap"
	if length < 5 {
		d.truncated()
		return true
	}
	oui, typ := d.u24(b, 0), d.u16(b, 3)
	name, kind := "Unknown", "pid"
	switch oui {
	case 0, 0xf8, 0x080007:
		name = lookUp(etherNames, typ, "Unknown")
	case 0xc:
		name = lookUp(ciscoNames, typ, "Unknown")
	}
	if oui == 0 {
		kind = "ethertype"
	}
	if d.o.LinkLevel {
		d.addf("oui %s (0x%06x), %s %s (0x%04x), length %d: ", lookUp(ouiNames, oui, "Unknown"), oui, kind, name, typ, length-5)
	}
	b, length = skip(b, 5), length-5
	switch {
	case (oui == 0 || oui == 0xf8) && d.payload(layers.EthernetType(typ), b, length):
		return true
	case oui == 0xc && typ == 0x010b:
		d.stp(b, length)
		return true
	}
	elsewhere := oui == 0xc && name != "Unknown" && typ != 0x010c || oui == 0 && undecoded[layers.EthernetType(typ)]
	if !d.o.LinkLevel {
		if src != nil {
			d.addf("%s > %s ", src, dst)
		}
		d.add("SNAP, ")
		if oui != 0 {
			d.addf("oui %s (0x%06x), ", lookUp(ouiNames, oui, "Unknown"), oui)
		}
		d.addf("%s %s (0x%04x), length %d", kind, name, typ, length)
		if !elsewhere {
			d.add(": ")
		}
	}
	return elsewhere
}
