package dissect

// Routing protocols, with the fields of a line without -v.

var pimNames = map[uint8]string{0: "Hello", 1: "Register", 2: "Register Stop", 3: "Join / Prune", 4: "Bootstrap", 5: "Assert",
	6: "Graft", 7: "Graft Acknowledgement", 8: "Candidate RP Advertisement", 9: "Prune Refresh", 10: "DF Election", 11: "ECMP Redirect"}

func (d *Dissector) pim(b []byte, length int) {
	d.proto = "pim"
	first := d.u8(b, 0)
	switch {
	case first>>4 != 2:
		d.addf("PIMv%d, length %d", first>>4, length)
	case d.o.Verbose > 0:
		d.addf("PIMv2, length %d\n\t%s", length, lookUp(pimNames, first&15, "Unknown Type"))
	default:
		d.addf("PIMv2, %s, length %d", lookUp(pimNames, first&15, "Unknown Type"), length)
	}
}

var (
	ospfNames  = map[uint8]string{1: "Hello", 2: "Database Description", 3: "LS-Request", 4: "LS-Update", 5: "LS-Ack"}
	eigrpNames = map[uint8]string{1: "Update", 3: "Query", 4: "Reply", 5: "Hello", 6: "IPX SAP", 7: "Probe"}
)

func (d *Dissector) ospf(b []byte, length int) {
	d.proto = "ospf2"
	unknown := "unknown LS-type %d"
	if d.net.version == 6 {
		d.proto, unknown = "ospf3", "unknown packet type (%d)"
	} else if d.u16(b, 14) == 2 { // a digest that the length does not cover
		length -= 16
	}
	d.addf("OSPFv%d, %s, length %d", d.u8(b, 0), lookUp(ospfNames, d.u8(b, 1), unknown), uint32(length))
}

func (d *Dissector) eigrp(b []byte, length int) {
	d.proto = "eigrp"
	d.require(b, 20)
	if b[0] != 2 {
		d.addf("EIGRP version %d packet not supported", b[0])
		return
	}
	d.addf("EIGRP %s, length: %d", lookUp(eigrpNames, b[1], "unknown (%d)"), length)
}

func (d *Dissector) vrrp(b []byte, length int) {
	d.proto = "vrrp"
	d.add("VRRP")
	first := d.u8(b, 0)
	version, kind := first>>4, first&15
	d.addf("v%d, %s", version, lookUp(map[uint8]string{1: "Advertisement"}, kind, "unknown type (%d)"))
	if d.net.hops != 255 {
		d.addf(", (ttl %d)", d.net.hops)
	}
	if version < 2 || version > 3 || kind != 1 {
		return
	}
	d.addf(", vrid %d, prio %d", d.u8(b, 1), d.u8(b, 2))
	if version == 2 {
		d.addf(", authtype %s", lookUp(map[uint8]string{0: "none", 1: "simple", 2: "ah"}, d.u8(b, 4), "#%d"))
		d.addf(", intvl %ds, length %d", d.u8(b, 5), length)
	} else {
		d.addf(", intvl %dcs, length %d", d.u16(b, 4)&0xfff, length)
	}
	if d.o.Verbose > 0 {
		d.vrrpAddresses(b, length, version)
	}
}

func (d *Dissector) vrrpAddresses(b []byte, length int, version uint8) {
	if length <= len(b) {
		start := uint64(0)
		if version == 3 {
			start = d.net.pseudoHeader(length, protoVRRP)
		}
		if checksum(b[:length], start) != 0 {
			d.addf(", (bad vrrp cksum %x)", d.u16(b, 6))
		}
	}
	n := int(d.u8(b, 3))
	d.add(", addrs")
	if n > 1 {
		d.addf("(%d)", n)
	}
	d.add(":")
	at, separator := 8, " "
	for ; n > 0; n-- {
		if d.net.version == 4 {
			d.addf("%s%s", separator, d.ip4Addr(b, at))
			at += 4
		} else {
			d.addf("%s%s", separator, d.ip6Addr(b, at))
			at += 16
		}
		separator = ","
	}
	if version == 2 && d.u8(b, 4) == 1 {
		d.add(` auth "`)
		d.text(d.bytes(b, at, 8))
		d.add(`"`)
	}
}
