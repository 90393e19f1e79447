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
			isKnown := d.lldpValue(kind, value)
			if d.o.Verbose > 1 || !isKnown {
				d.hexData(value, "\n\t  ")
			}
		}
		b, length = b[size:], length-size
	}
}

// lldpValue appends a value with -v. It returns false if the format of the value is unknown.
func (d *Dissector) lldpValue(kind int, b []byte) (isKnown bool) {
	switch kind {
	case 1:
		return d.lldpName(lldpChassis, 4, 5, b)
	case 2:
		return d.lldpName(lldpPorts, 3, 4, b)
	case 3:
		d.addf(": TTL %ds", d.u16(b, 0))
	case 4:
		d.add(": ")
		d.text(b)
	case 5: // shown even without -v
	case 6:
		d.add("\n\t  ")
		d.text(b)
	case 7:
		d.require(b, 4)
		for i, name := range []string{"System ", "Enabled"} {
			set := d.u16(b, 2*i)
			d.addf("\n\t  %s Capabilities [%s] (0x%04x)", name, bitNames(uint32(set), lldpCapabilities, ", ", "none"), set)
		}
	case 8:
		d.lldpManagement(b)
	case 127:
		oui := d.u24(b, 0)
		d.addf(": OUI %s (0x%06x)", lookUp(ouiNames, oui, "Unknown"), oui)
		switch oui {
		case 0x0080c2, 0x00120f, 0x00005e, 0x0012bb, 0x001b21: // tcpdump prints more of these
			return true
		}
		return false
	default:
		return false
	}
	return true
}

// lldpName appends the name of a chassis or of a port. mac and network are the subtypes of names
// that are addresses.
func (d *Dissector) lldpName(subtypes map[uint8]string, mac, network uint8, b []byte) (isKnown bool) {
	d.require(b, 2)
	subtype, value := b[0], b[1:]
	name, isKnown := subtypes[subtype]
	if !isKnown {
		name = "Unknown"
	}
	d.addf("\n\t  Subtype %s (%d): ", name, subtype)
	switch {
	case subtype == mac:
		d.addf("%s", d.mac(value, 0))
	case subtype == network:
		d.add(d.networkAddress(value))
	case isKnown:
		d.text(value)
	}
	return isKnown
}

// networkAddress formats an address after its family number.
func (d *Dissector) networkAddress(b []byte) string {
	family := d.u8(b, 0)
	text := fmt.Sprintf("AFI %s (%d)", lookUp(familyNames, family, "Unknown"), family)
	switch family {
	case 1:
		return fmt.Sprintf("%s: %s", text, d.ip4Addr(b, 1))
	case 2:
		return fmt.Sprintf("%s: %s", text, d.ip6Addr(b, 1))
	case 6:
		return fmt.Sprintf("%s: %s", text, d.mac(b, 1))
	}
	return text + ", no AF printer !"
}

// lldpManagement appends the management address of the system.
func (d *Dissector) lldpManagement(b []byte) {
	size := int(d.u8(b, 0))
	d.addf("\n\t  Management Address length %d, %s", size, d.networkAddress(d.bytes(b, 1, size)))
	b = b[1+size:]
	d.require(b, 5)
	d.addf("\n\t  %s Interface Numbering (%d): %d", lookUp(lldpNumbering, b[0], "Unknown"), b[0], d.u32(b, 1))
	if b = b[5:]; len(b) == 0 {
		return
	}
	n := int(b[0])
	d.require(b, 1+n)
	if n > 0 {
		d.addf("\n\t  OID length %d", n)
		d.text(b[1 : 1+n])
	}
}
