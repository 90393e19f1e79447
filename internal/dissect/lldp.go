package dissect

import "fmt"

var (
	lldpNames = map[int]string{0: "End", 1: "Chassis ID", 2: "Port ID", 3: "Time to Live", 4: "Port Description",
		5: "System Name", 6: "System Description", 7: "System Capabilities", 8: "Management Address",
		127: "Organization specific"}
	lldpChassis = map[uint8]string{1: "Chassis component", 2: "Interface alias", 3: "Port component", 4: "MAC address",
		5: "Network address", 6: "Interface name", 7: "Local"}
	lldpPorts = map[uint8]string{1: "Interface alias", 2: "Port component", 3: "MAC address", 4: "Network Address",
		5: "Interface Name", 6: "Agent circuit ID", 7: "Local"}
	lldpCapabilities = []bit{{1, "Other"}, {2, "Repeater"}, {4, "Bridge"}, {8, "WLAN AP"}, {0x10, "Router"},
		{0x20, "Telephone"}, {0x40, "Docsis"}, {0x80, "Station Only"}}
	lldpNumbering = map[uint8]string{1: "Unknown", 2: "Interface Index", 3: "System Port Number"}
	familyNames   = map[uint8]string{0: "Reserved", 1: "IPv4", 2: "IPv6", 3: "NSAP", 4: "HDLC", 5: "BBN 1822", 6: "802",
		7: "E.163", 8: "E.164", 9: "F.69", 10: "X.121", 11: "Novell IPX", 12: "Appletalk", 13: "Decnet IV"}
)

// lldp appends an announcement: the name of the system and, with -v, all other parts except
// organisation-specific ones.
func (d *Dissector) lldp(b []byte, length int) {
	d.proto = "lldp"
	d.addf("LLDP, length %d", length)
	for length >= 2 {
		d.spend(8)
		header := d.u16(b, 0)
		kind, size := int(header>>9), int(header&0x1ff)
		b, length = skip(b, 2), length-2
		if d.o.Verbose > 0 {
			d.addf("\n\t%s TLV (%d), length %d", lookUp(lldpNames, kind, "Unknown"), kind, size)
		}
		switch {
		case kind == 0:
			return
		case size == 0:
			d.invalid()
			return
		}
		if length < size || size > len(b) {
			d.truncated()
		}
		value := b[:size]
		if kind == 5 {
			d.add(": ")
			d.text(value)
		}
		if d.o.Verbose > 0 {
			known, whole := d.lldpValue(kind, value)
			if !whole {
				d.truncated()
			}
			if d.o.Verbose > 1 || !known {
				d.hexData(value, "\n\t  ")
			}
		}
		b, length = b[size:], length-size
	}
}

// lldpValue appends a value with -v. It reports whether the value has a known format and the right
// length.
func (d *Dissector) lldpValue(kind int, b []byte) (known, whole bool) {
	switch kind {
	case 1, 2:
		return d.lldpName(kind, b)
	case 3:
		if len(b) < 2 {
			return true, false
		}
		d.addf(": TTL %ds", d.u16(b, 0))
	case 4:
		d.add(": ")
		d.text(b)
	case 5: // shown even without -v
	case 6:
		d.add("\n\t  ")
		d.text(b)
	case 7:
		if len(b) < 4 {
			return true, false
		}
		for i, name := range []string{"System ", "Enabled"} {
			set := d.u16(b, 2*i)
			d.addf("\n\t  %s Capabilities [%s] (0x%04x)", name, bitNames(uint32(set), lldpCapabilities, ", ", "none"), set)
		}
	case 8:
		return true, d.lldpManagement(b)
	case 127:
		if len(b) < 3 {
			return true, false
		}
		oui := d.u24(b, 0)
		d.addf(": OUI %s (0x%06x)", lookUp(ouiNames, oui, "Unknown"), oui)
		switch oui {
		case 0x0080c2, 0x00120f, 0x00005e, 0x0012bb, 0x001b21: // tcpdump prints more of these
			return true, true
		}
		return false, true
	default:
		return false, true
	}
	return true, true
}

// lldpName appends the name of a chassis or of a port.
func (d *Dissector) lldpName(kind int, b []byte) (known, whole bool) {
	if len(b) < 2 {
		return true, false
	}
	names, mac, network, last := lldpChassis, uint8(4), uint8(5), uint8(7)
	if kind == 2 {
		names, mac, network = lldpPorts, 3, 4
	}
	subtype, value := b[0], b[1:]
	d.addf("\n\t  Subtype %s (%d): ", lookUp(names, subtype, "Unknown"), subtype)
	switch {
	case subtype == mac:
		if len(value) < 6 {
			return true, false
		}
		d.addf("%s", d.mac(value, 0))
	case subtype == network:
		text, ok := d.networkAddress(value)
		d.add(text)
		return true, ok
	case subtype == 0 || subtype > last:
		return false, true
	default:
		d.text(value)
	}
	return true, true
}

// networkAddress formats an address after its family number.
func (d *Dissector) networkAddress(b []byte) (text string, ok bool) {
	if len(b) < 1 {
		return "", false
	}
	size, known := map[uint8]int{1: 4, 2: 16, 6: 6}[b[0]]
	family := fmt.Sprintf("AFI %s (%d)", lookUp(familyNames, b[0], "Unknown"), b[0])
	switch {
	case !known:
		return family + ", no AF printer !", true
	case len(b)-1 < size:
		return "", false
	case size == 6:
		return fmt.Sprintf("%s: %s", family, d.mac(b, 1)), true
	}
	return fmt.Sprintf("%s: %s", family, addr(b[1:1+size])), true
}

// lldpManagement appends the management address of the system.
func (d *Dissector) lldpManagement(b []byte) bool {
	if len(b) < 1 || len(b)-1 < int(b[0]) {
		return false
	}
	size := int(b[0])
	text, ok := d.networkAddress(b[1 : 1+size])
	if !ok {
		return false
	}
	d.addf("\n\t  Management Address length %d, %s", size, text)
	if b = b[1+size:]; len(b) < 5 {
		return false
	}
	d.addf("\n\t  %s Interface Numbering (%d): %d", lookUp(lldpNumbering, b[0], "Unknown"), b[0], d.u32(b, 1))
	if b = b[5:]; len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n {
			return false
		}
		if n > 0 {
			d.addf("\n\t  OID length %d", n)
			d.text(b[1 : 1+n])
		}
	}
	return true
}
