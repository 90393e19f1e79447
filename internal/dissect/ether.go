package dissect

import (
	"bytes"
	"encoding/binary"
	"net"

	"github.com/xdpcap/xdpcap/internal/headers"
)

const maxEthernetLength = 1500 // above it, the field is a type

// ether appends an Ethernet frame of length bytes; b is the captured part.
func (d *Dissector) ether(b []byte, length int) {
	d.proto = "ether"
	d.linkHeader(min(14, len(b)))
	d.require(b, 14)
	dst, src, typ := d.mac(b, 0), d.mac(b, 6), d.u16(b, 12)
	frameLength, isTagged := length, false
	if d.o.LinkLevel {
		d.addf("%s > %s, ", src, dst)
	}
	for b, length = b[14:], length-14; headers.IsTag(typ); b, length = b[4:], length-4 {
		d.proto = "vlan"
		d.linkHeader(min(4, len(b)))
		d.require(b, 4)
		d.spend(8)
		if d.o.LinkLevel {
			d.etherType(typ)
			d.frameLength(frameLength, isTagged)
		}
		d.vlan(d.u16(b, 0))
		isTagged, typ = true, d.u16(b, 2)
	}
	if typ <= maxEthernetLength {
		length = min(length, int(typ))
		if d.o.LinkLevel {
			d.add("802.3")
			if !isTagged {
				d.addf(", length %d: ", length)
			}
		}
		d.llc(limit(b, length), length, src, dst)
		return
	}
	if d.o.LinkLevel {
		d.etherType(typ)
		d.frameLength(frameLength, isTagged)
	}
	if d.payload(typ, b, length) {
		return
	}
	if !d.o.LinkLevel {
		d.addf("%s > %s, ", src, dst)
		d.etherType(typ)
		d.addf(", length %d", frameLength)
		if !undecoded[typ] {
			d.add(": ")
		}
	}
	if !undecoded[typ] {
		d.unknown(b)
	}
}

// etherType appends the name of an EtherType.
func (d *Dissector) etherType(typ uint16) {
	if d.o.Quiet {
		d.add(lookUp(etherNames, typ, "Unknown Ethertype (0x%04x)"))
	} else {
		d.addf("ethertype %s (0x%04x)", lookUp(etherNames, typ, "Unknown"), typ)
	}
}

// frameLength appends the length of the frame, which is shown once, before its first tag.
func (d *Dissector) frameLength(length int, isShown bool) {
	if isShown {
		d.add(", ")
	} else {
		d.addf(", length %d: ", length)
	}
}

// vlan appends the control information of a VLAN tag, with -e.
func (d *Dissector) vlan(control uint16) {
	if !d.o.LinkLevel {
		return
	}
	d.addf("vlan %d, p %d", control&0xfff, control>>13)
	if control&0x1000 != 0 {
		d.add(", DEI")
	}
	d.add(", ")
}

// payload appends the payload of an EtherType. It returns false if it cannot decode that type.
func (d *Dissector) payload(typ uint16, b []byte, length int) bool {
	switch typ {
	case etherIPv4:
		d.ipv4(b, length)
	case etherIPv6:
		d.ipv6(b, length)
	case etherARP, etherReverse:
		d.arp(b, length)
	case etherMPLS, etherMPLSGroup:
		d.mpls(b, length)
	case etherDiscovery, etherSession, 0x3c12, 0x3c13: // with the numbers of 3Com
		d.pppoe(b, length)
	case etherLLDP:
		d.lldp(b, length)
	case etherSlow:
		d.slow(b, length)
	case etherLoopback:
		d.loopback(b, length)
	default:
		return false
	}
	return true
}

// loopback appends the Ethernet configuration test protocol, whose numbers are little-endian.
func (d *Dissector) loopback(b []byte, length int) {
	d.proto = "loopback"
	d.add("Loopback")
	if length < 2 {
		d.invalid()
		return
	}
	skipCount := int(binary.LittleEndian.Uint16(d.bytes(b, 0, 2)))
	d.addf(", skipCount %d", skipCount)
	if skipCount%8 != 0 {
		d.add(" (bogus)")
	}
	b, length = skip(b, 2+skipCount), length-2-skipCount
	if length < 2 { // also if skipCount is too large
		d.invalid()
		return
	}
	const reply, forward = 1, 2
	function := int(binary.LittleEndian.Uint16(d.bytes(b, 0, 2)))
	d.addf(", %s", lookUp(map[int]string{reply: "Reply", forward: "Forward Data"}, function, " invalid (%d)"))
	b, length = skip(b, 2), length-2
	size, isKnown := map[int]int{reply: 2, forward: 6}[function]
	switch {
	case !isKnown:
		return
	case length < size:
		d.invalid()
		return
	case function == reply:
		d.addf(", receipt number %d", binary.LittleEndian.Uint16(d.bytes(b, 0, 2)))
	default:
		d.addf(", forwarding address %s", d.mac(b, 0))
	}
	d.addf(", data (%d octets)", length-size)
	d.require(skip(b, size), length-size)
}

// The access points of LLC (IEEE 802.2) whose payload is decoded.
const (
	accessIP   = 0x06
	accessSTP  = 0x42
	accessSNAP = 0xaa
)

var (
	// llcNames are the names of service access points.
	llcNames = map[uint8]string{0x00: "Null", 0xfe: "OSI", 0x02: "802.1B I", 0x03: "802.1B G", accessIP: "IP", 0x04: "SNA",
		0x0e: "ProWay NM", accessSTP: "STP", 0x4e: "RS511", 0x7e: "ISO8208", 0x8e: "ProWay", accessSNAP: "SNAP", 0xe0: "IPX",
		0xf0: "NetBeui", 0xff: "Global"}
	llcCommands = map[int]string{0x03: "ui", 0xe3: "test", 0xaf: "xid", 0x63: "ua", 0x43: "disc", 0x0f: "dm", 0x6f: "sabme", 0x87: "frmr"}
	// llcUndecoded are the access points of protocols that tcpdump decodes and dissect does not.
	llcUndecoded = map[uint8]bool{0xfe: true, 0xe0: true, 0xf0: true}
	// ciscoNames are the protocols with Cisco's numbers.
	ciscoNames = map[uint16]string{0x2000: "CDP", 0x2003: "VTP", 0x2004: "DTP", 0x0111: "UDLD", ciscoPVST: "PVST", ciscoBridge: "VLAN Bridge"}
)

const ciscoPVST, ciscoBridge = 0x010b, 0x010c

// llc appends a frame with a length instead of an EtherType. The addresses may be nil.
func (d *Dissector) llc(b []byte, length int, src, dst net.HardwareAddr) {
	d.proto = "llc"
	size, isUnnumbered := 3, len(b) >= 3 && b[2]&3 == 3
	if len(b) >= 3 && !isUnnumbered {
		size = 4
	}
	isIPX := bytes.HasPrefix(b, []byte{0xff, 0xff}) // Novell's frames, which have no LLC header
	if !isIPX || len(b) < size {
		d.linkHeader(min(size, len(b)))
	}
	d.require(b, size)
	control := int(b[2])
	if !isUnnumbered {
		control |= int(b[3]) << 8
	}
	dsap, ssap := b[0]&^1, b[1]&^1 // the destination and the source
	isGroup, isResponse := b[0]&1, b[1]&1
	if d.o.LinkLevel && !isIPX {
		d.addf("LLC, dsap %s (0x%02x) %s, ssap %s (0x%02x) %s", lookUp(llcNames, dsap, "Unknown"), dsap,
			[2]string{"Individual", "Group"}[isGroup], lookUp(llcNames, ssap, "Unknown"), ssap,
			[2]string{"Command", "Response"}[isResponse])
		d.addf(map[bool]string{true: ", ctrl 0x%02x: ", false: ", ctrl 0x%04x: "}[isUnnumbered], control)
	}
	rest, restLength := b[size:], length-size
	if dsap == ssap && control == 3 {
		switch dsap {
		case accessSNAP:
			d.linkHeader(5)
			if !d.snap(rest, restLength, src, dst) {
				d.unknown(b)
			}
			return
		case accessSTP:
			d.stp(rest, restLength)
			return
		case accessIP:
			d.ipv4(rest, restLength)
			return
		}
	}
	if !d.o.LinkLevel || isIPX {
		d.llcAddresses(dsap, ssap, src, dst)
	}
	if isIPX {
		d.addf("802.3, length %d", length)
		return
	}
	pollBit := 0x100
	if isUnnumbered {
		pollBit = 0x10
	}
	flag := [2]string{"Command", "Response"}[isResponse]
	if control&pollBit != 0 {
		flag = [2]string{"Poll", "Final"}[isResponse]
	}
	switch {
	case isUnnumbered:
		d.addf("Unnumbered, %s, Flags [%s], length %d", lookUp(llcCommands, control&0xef, "%02x"), flag, length)
		if control&0xef == 0xaf { // exchange identification
			if restLength == 0 {
				return
			}
			if restLength > 0 && d.u8(rest, 0) == 0x81 {
				d.addf(": %02x %02x", d.u8(rest, 1), d.u8(rest, 2))
				return
			}
		}
	case control&3 == 1:
		d.addf("Supervisory, %s, rcv seq %d, Flags [%s], length %d",
			[4]string{"Receiver Ready", "Receiver not Ready", "Reject", "?"}[control>>2&3], control>>9&0x7f, flag, length)
		return
	default:
		d.addf("Information, send seq %d, rcv seq %d, Flags [%s], length %d", control>>1&0x7f, control>>9&0x7f, flag, length)
	}
	if !llcUndecoded[dsap] || dsap != ssap {
		d.unknown(b)
	}
}

// llcAddresses appends the addresses and the access points of a frame.
func (d *Dissector) llcAddresses(dsap, ssap uint8, src, dst net.HardwareAddr) {
	from, to := lookUp(llcNames, ssap, "Unknown SSAP 0x%02x"), lookUp(llcNames, dsap, "Unknown DSAP 0x%02x")
	switch {
	case src == nil && ssap == dsap:
		d.addf("%s ", to)
	case src == nil:
		d.addf("%s > %s ", from, to)
	case ssap == dsap:
		d.addf("%s > %s %s ", src, dst, to)
	default:
		d.addf("%s %s > %s %s ", src, from, dst, to)
	}
}

// Organisations whose numbers of protocols are named.
const ouiEthernet, ouiCisco, ouiBridged, ouiAppletalk = 0, 0x0c, 0xf8, 0x080007

// snap appends the content that a SNAP header announces. It returns false if the content is
// unknown.
func (d *Dissector) snap(b []byte, length int, src, dst net.HardwareAddr) bool {
	d.proto = "snap"
	if length < 5 {
		d.truncated()
	}
	oui, typ := d.u24(b, 0), d.u16(b, 3)
	name, kind := "Unknown", "pid"
	switch oui {
	case ouiEthernet, ouiBridged, ouiAppletalk:
		name = lookUp(etherNames, typ, "Unknown")
	case ouiCisco:
		name = lookUp(ciscoNames, typ, "Unknown")
	}
	if oui == ouiEthernet {
		kind = "ethertype"
	}
	if d.o.LinkLevel {
		d.addf("oui %s (0x%06x), %s %s (0x%04x), length %d: ", lookUp(ouiNames, oui, "Unknown"), oui, kind, name, typ, length-5)
	}
	b, length = b[5:], length-5
	if (oui == ouiEthernet || oui == ouiBridged) && d.payload(typ, b, length) {
		return true
	}
	if oui == ouiCisco && typ == ciscoPVST {
		d.stp(b, length)
		return true
	}
	// tcpdump decodes these, so they are not unknown bytes.
	isUndecoded := oui == ouiCisco && name != "Unknown" && typ != ciscoBridge || oui == ouiEthernet && undecoded[typ]
	if !d.o.LinkLevel {
		if src != nil {
			d.addf("%s > %s ", src, dst)
		}
		d.add("SNAP, ")
		if oui != ouiEthernet {
			d.addf("oui %s (0x%06x), ", lookUp(ouiNames, oui, "Unknown"), oui)
		}
		d.addf("%s %s (0x%04x), length %d", kind, name, typ, length)
		if !isUndecoded {
			d.add(": ")
		}
	}
	return isUndecoded
}
