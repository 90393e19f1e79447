package dissect

var (
	pppoeCodes = map[uint8]string{0x09: "PADI", 0x07: "PADO", 0x19: "PADR", 0x65: "PADS", 0xa7: "PADT", 0: ""}
	pppoeTags  = map[uint16]string{0: "EOL", 0x0101: "Service-Name", 0x0102: "AC-Name", 0x0103: "Host-Uniq",
		0x0104: "AC-Cookie", 0x0105: "Vendor-Specific", 0x0110: "Relay-Session-ID", 0x0120: "PPP-Max-Payload",
		0x0201: "Service-Name-Error", 0x0202: "AC-System-Error", 0x0203: "Generic-Error"}
)

func (d *Dissector) pppoe(b []byte, length int) {
	d.proto = "pppoe"
	if length < 6 {
		d.addf(" (length %d < 6)", length)
		d.invalid()
		return
	}
	length -= 6
	d.require(b, 6)
	if version := b[0] >> 4; version != 1 {
		d.addf(" [ver %d]", version)
	}
	if typ := b[0] & 15; typ != 1 {
		d.addf(" [type %d]", typ)
	}
	code, session, size := b[1], d.u16(b, 2), int(d.u16(b, 4))
	d.addf("PPPoE %s", lookUp(pppoeCodes, code, "PAD-%x"))
	if code == 9 && size > 1484-6 {
		d.addf(" [len %d!]", size)
	}
	if size > length {
		d.addf(" [len %d > %d!]", size, length)
		size = length
	}
	if session != 0 {
		d.addf(" [ses 0x%x]", session)
	}
	b = b[6:]
	if code == 0 {
		d.add(" ")
		d.ppp(b, size)
		return
	}
	for tag := uint16(1); tag != 0 && size > 0; {
		tag = d.u16(b, 0)
		n := int(d.u16(b, 2))
		b, size = skip(b, 4), size-4-n
		d.require(b, n)
		d.pppoeTag(tag, b[:n])
		b = b[n:]
	}
}

// pppoeTag appends a tag. Its value is text if more than half of its first bytes look like text.
func (d *Dissector) pppoeTag(tag uint16, value []byte) {
	name := lookUp(pppoeTags, tag, "TAG-0x%x")
	text := make([]byte, 0, 79)
	printable := 0
	for _, c := range limit(value, 79) {
		if c >= ' ' && c < 0x7f {
			printable++
		} else {
			c = '.'
		}
		text = append(text, c)
	}
	switch {
	case len(value) == 0:
		d.addf(" [%s]", name)
	case printable > len(text)-printable:
		d.addf(" [%s \"%s\"]", name, text)
	default:
		d.addf(" [%s 0x%X]", name, limit(value, maxUnknown))
	}
}

var (
	pppNames = map[int]string{0x21: "IP", 0x23: "OSI", 0x25: "NS", 0x27: "DECNET", 0x29: "APPLE", 0x2b: "IPX", 0x2d: "VJC IP",
		0x2f: "VJNC IP", 0x31: "BRPDU", 0x33: "STII", 0x35: "VINES", 0x281: "MPLS", 0x283: "MPLS", 0xfd: "Compressed",
		0x3d: "MLPPP", 0x57: "IP6", 0x201: "HELLO", 0x231: "LUXCOM", 0x233: "SNS", 0x8021: "IPCP", 0x8023: "OSICP",
		0x8025: "NSCP", 0x8027: "DECNETCP", 0x8029: "APPLECP", 0x802b: "IPXCP", 0x8033: "STIICP", 0x8035: "VINESCP",
		0x8057: "IP6CP", 0x8281: "MPLSCP", 0xc021: "LCP", 0xc023: "PAP", 0xc025: "LQM", 0xc223: "CHAP", 0xc227: "EAP",
		0xc027: "SPAP", 0xc123: "Old-SPAP", 0xc02b: "BACP", 0xc02d: "BAP", 0xc03d: "MLPPP-CP", 0x80fd: "CCP"}
	pppControl = map[uint8]string{0: "Vendor-Extension", 1: "Conf-Request", 2: "Conf-Ack", 3: "Conf-Nack", 4: "Conf-Reject",
		5: "Term-Request", 6: "Term-Ack", 7: "Code-Reject", 8: "Prot-Reject", 9: "Echo-Request", 10: "Echo-Reply",
		11: "Disc-Req", 12: "Ident", 13: "Time-Rem", 14: "Reset-Req", 15: "Reset-Ack"}
)

func (d *Dissector) ppp(b []byte, length int) {
	d.proto = "ppp"
	whole := length
	if length >= 2 && d.u16(b, 0) == 0xff03 {
		b, length = skip(b, 2), length-2
	}
	if length < 2 {
		d.truncated()
	}
	proto, n := int(d.u8(b, 0)), 1
	if proto&1 == 0 {
		proto, n = int(d.u16(b, 0)), 2
	}
	b, length = skip(b, n), length-n
	if d.o.LinkLevel {
		name, known := pppNames[proto]
		if !known {
			name = "unknown"
		}
		d.addf("%s (0x%04x), length %d", name, proto, whole)
		if !known {
			return
		}
		d.add(": ")
	}
	switch proto {
	case 0x21, 0x2f, etherIPv4:
		d.ipv4(b, length)
	case 0x57, etherIPv6:
		d.ipv6(b, length)
	case 0x281, 0x283:
		d.mpls(b, length)
	case 0xfd:
		d.add("compressed PPP data")
	case 0xc021, 0x8021, 0x8023, 0x8281, 0x8057, 0x80fd, 0xc02b:
		d.addf("%s, ", pppNames[proto])
		if length < 4 {
			d.truncated()
		}
		code := d.u8(b, 0)
		d.addf("%s (0x%02x), id %d, length %d", lookUp(pppControl, code, "Unknown Opcode"), code, d.u8(b, 1), length+2)
		if size := int(d.u16(b, 2)); d.o.Verbose > 0 && size >= 4 && size <= length {
			d.addf("\n\tencoded length %d (=Option(s) length %d)", size, size-4)
		}
	case 0x3d, 0xc223, 0xc023, 0xc02d, 0x2b, 0x23:
		d.addf("%s, length %d", pppNames[proto], length)
	default:
		d.addf("%s ", lookUp(pppNames, proto, "unknown PPP protocol (0x%04x)"))
		d.hexData(limit(b, length), "\n\t")
	}
}
