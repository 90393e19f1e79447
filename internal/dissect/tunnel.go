package dissect

var greFlags = []bit{{greChecksum, "checksum present"}, {greRouting, "routing present"}, {greKey, "key present"},
	{greSequence, "sequence# present"}, {0x0800, "source routing present"}, {greAck, "ack present"}}

// Flags of GRE, each of which announces a field.
const (
	greChecksum = 0x8000 // and an offset
	greRouting  = 0x4000 // likewise
	greKey      = 0x2000
	greSequence = 0x1000
	greAck      = 0x0080 // in version 1
)

// gre appends a packet of GRE: version 0 (RFC 2784, 2890), or version 1, which carries PPP
// (RFC 2637).
func (d *Dissector) gre(b []byte, length int) {
	d.proto = "gre"
	b = limit(b, length)
	flags := d.u16(b, 0)
	version := flags & 7
	d.addf("GREv%d", version)
	if version > 1 {
		d.add(" ERROR: unknown-version")
		return
	}
	if d.o.Verbose > 0 {
		d.addf(", Flags [%s]", bitNames(uint32(flags), greFlags, ", ", "none"))
	}
	protocol, at := d.u16(b, 2), 4
	field := func(flag uint16) (value uint32) {
		if flags&flag != 0 {
			value = d.u32(b, at)
			at += 4
		}
		return value
	}
	sumAndOffset, key, sequence := field(greChecksum|greRouting), field(greKey), field(greSequence)
	if flags&greRouting != 0 {
		at = d.greRoutes(b, at)
	}
	hasSequence := flags&greSequence != 0
	if version == 1 {
		ack := field(greAck)
		if flags&greKey != 0 {
			d.addf(", call %d", key&0xffff)
		}
		if hasSequence {
			d.addf(", seq %d", sequence)
		}
		if flags&greAck != 0 {
			d.addf(", ack %d", ack)
		}
		if !hasSequence {
			d.add(", no-payload")
		}
	} else {
		if flags&(greChecksum|greRouting) != 0 {
			if d.o.Verbose > 0 {
				d.addf(", sum 0x%x", sumAndOffset>>16)
			}
			d.addf(", off 0x%x", sumAndOffset&0xffff)
		}
		if flags&greKey != 0 {
			d.addf(", key=0x%x", key)
		}
		if hasSequence {
			d.addf(", seq %d", sequence)
		}
	}
	d.tunnelProtocol(protocol)
	d.addf(", length %d", length)
	if version == 1 && !hasSequence {
		return
	}
	d.newLine(": ")
	d.grePayload(protocol, version, b[at:], length-at, hasSequence)
}

// greRoutes returns the offset after the list of source routes, which RFC 2784 has removed.
func (d *Dissector) greRoutes(b []byte, at int) int {
	const maxRoutes = 32
	for range maxRoutes + 1 {
		family, size := d.u16(b, at), int(d.u8(b, at+3))
		at += 4 + size
		d.require(b, at)
		if family == 0 && size == 0 {
			return at
		}
	}
	d.truncated()
	return at
}

func (d *Dissector) grePayload(protocol, version uint16, b []byte, length int, hasSequence bool) {
	switch {
	case version == 1 && protocol == etherPPP:
		d.ppp(b, length)
	case version == 1:
		d.addf("gre-proto-0x%x", protocol)
	case protocol == etherIPv4:
		d.ipv4(b, length)
	case protocol == etherIPv6:
		d.ipv6(b, length)
	case protocol == etherMPLS:
		d.mpls(b, length)
	case protocol == etherBridged:
		d.ether(b, length)
	case protocol == etherERSPAN: // tcpdump shows only the number
		d.add("gre-proto-0x88be, ERSPAN")
		d.erspan(b, length, hasSequence)
	case protocol == 0x8137, protocol == 0x809b, protocol == 0x00fe: // tcpdump prints more of these
		d.add(etherNames[protocol])
	default:
		d.addf("gre-proto-0x%x", protocol)
	}
}

// tunnelProtocol appends the EtherType of a tunnel's payload, with -e.
func (d *Dissector) tunnelProtocol(typ uint16) {
	if d.o.LinkLevel {
		d.addf(", proto %s (0x%04x)", lookUp(etherNames, typ, "unknown"), typ)
	}
}

// erspan appends a mirrored frame: of type I, without a header, or of type II, with one.
func (d *Dissector) erspan(b []byte, length int, isSecond bool) {
	if isSecond {
		d.proto = "erspan"
		d.require(b, 8)
		d.addf(" session %d, vlan %d, index %d: ", d.u16(b, 2)&0x3ff, d.u16(b, 0)&0xfff, d.u32(b, 4)&0xfffff)
		b, length = b[8:], length-8
	} else {
		d.add(": ")
	}
	d.ether(b, length)
}

func (d *Dissector) vxlan(b []byte, length int) {
	d.proto = "vxlan"
	d.add("VXLAN")
	if length < 8 {
		d.invalid()
		return
	}
	flags := d.u8(b, 0)
	d.addf(", flags [%s] (0x%02x), ", bitNames(uint32(flags), []bit{{8, "I"}}, "", "invalid"), flags)
	d.require(b, 8)
	d.addf("vni %d\n", d.u24(b, 4))
	d.ether(b[8:], length-8)
}

var geneveFlags = []bit{{0x80, "O"}, {0x40, "C"}, {0x20, "R1"}, {0x10, "R2"}, {8, "R3"}, {4, "R4"}, {2, "R5"}, {1, "R6"}}

func (d *Dissector) geneve(b []byte, length int) {
	d.proto = "geneve"
	d.add("Geneve")
	if length < 8 {
		d.addf(" [length %d < 8]", length)
		d.invalid()
		return
	}
	d.require(b, 8)
	if version := b[0] >> 6; version != 0 {
		d.addf(" ERROR: unknown-version %d", version)
		return
	}
	typ := d.u16(b, 2)
	d.addf(", Flags [%s], vni 0x%x", bitNames(uint32(b[1]), geneveFlags, "", "none"), d.u24(b, 4))
	if b[7] != 0 {
		d.addf(", rsvd 0x%x", b[7])
	}
	d.tunnelProtocol(typ)
	options := int(b[0]&0x3f) * 4
	b, length = b[8:], length-8
	if length < options {
		d.addf(" truncated-geneve - %d bytes missing", options-length)
		return
	}
	d.require(b, options)
	if options > 0 {
		d.add(", options [")
		if d.o.Verbose > 0 {
			d.geneveOptions(b[:options])
		} else {
			d.addf("%d bytes", options)
		}
		d.add("]")
	}
	b, length = b[options:], length-options
	d.newLine(": ")
	switch {
	case d.payload(typ, b, length):
	case typ == etherBridged:
		d.ether(b, length)
	default:
		d.addf("geneve-proto-0x%x", typ)
	}
}

func (d *Dissector) geneveOptions(b []byte) {
	for separator := ""; len(b) > 0; separator = ", " {
		class, kind := d.u16(b, 0), d.u8(b, 2)
		size := 4 + int(d.u8(b, 3)&0x1f)*4
		critical := ""
		if kind&0x80 != 0 {
			critical = "(C)"
		}
		d.addf("%sclass %s (0x%x) type 0x%x%s len %d", separator, geneveClass(class), class, kind, critical, size)
		if size > len(b) {
			d.add(" [bad length]")
			return
		}
		if d.o.Verbose > 1 && size > 4 {
			d.add(" data")
			for at := 4; at < size; at += 4 {
				d.addf(" %08x", d.u32(b, at))
			}
		}
		b = b[size:]
	}
}

func geneveClass(class uint16) string {
	switch {
	case class <= 0xff:
		return "Standard"
	case class >= 0xfff0:
		return "Experimental"
	}
	return lookUp(map[uint16]string{0x100: "Linux", 0x101: "Open vSwitch", 0x102: "Open Virtual Networking (OVN)",
		0x103: "In-band Network Telemetry (INT)", 0x104: "VMware"}, class, "Unknown")
}

// ah appends the authentication header of IPsec (RFC 4302), and its payload.
func (d *Dissector) ah(b []byte, length int) {
	d.proto = "ah"
	d.require(b, 1)
	d.add("AH")
	size := (int(d.u8(b, 1)) + 2) * 4
	d.add("(")
	if d.o.Verbose > 0 {
		d.addf("length=%d(%d-bytes),", d.u8(b, 1), size)
	}
	if reserved := d.u16(b, 2); reserved != 0 {
		d.addf("reserved=0x%x[MustBeZero],", reserved)
	}
	d.addf("spi=0x%08x,", d.u32(b, 4))
	d.addf("seq=0x%x,", d.u32(b, 8))
	d.add("icv=0x")
	for at := 12; at < size; at += 4 {
		d.addf("%08x", d.u32(b, at))
	}
	d.add("): ")
	d.ipPayload(b[0], skip(b, size), length-size)
}

// esp appends the header of IPsec's encrypted payload (RFC 4303).
func (d *Dissector) esp(b []byte, length int) {
	d.proto = "esp"
	d.require(b, 9)
	d.addf("ESP(spi=0x%08x,seq=0x%x), length %d", d.u32(b, 0), d.u32(b, 4), length)
}
