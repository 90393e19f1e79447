package dissect

var mplsLabels = [...]string{"IPv4 explicit NULL", "router alert", "IPv6 explicit NULL", "implicit NULL"}

func (d *Dissector) mpls(b []byte, length int) {
	d.proto = "mpls"
	d.add("MPLS")
	var label uint32
	for i, isBottom := 0, false; !isBottom; i++ {
		if length < 4 {
			d.invalid()
			d.require(b, length)
			return
		}
		entry := d.u32(b, 0)
		label, isBottom = entry>>12, entry&0x100 != 0
		if i > 0 && d.o.Verbose > 0 {
			d.add("\n\t")
		} else {
			d.add(" ")
		}
		d.number("(label ", uint64(label))
		if label < 16 && d.o.Verbose > 0 {
			name := "rsvd"
			if int(label) < len(mplsLabels) {
				name = mplsLabels[label]
			}
			d.addf(" (%s)", name)
		}
		d.number(", tc ", uint64(entry>>9&7))
		if isBottom {
			d.add(", [S]")
		}
		d.number(", ttl ", uint64(entry&0xff))
		d.add(")")
		b, length = skip(b, 4), length-4
	}
	version := byte(0)
	switch {
	case label == 0 || label == 3:
		version = 4
	case label == 2:
		version = 6
	case length < 1:
		return
	default:
		// The payload has no type field. The first byte of an IP header is its version and size.
		switch first := d.u8(b, 0); {
		case first >= 0x45 && first <= 0x4f:
			version = 4
		case first>>4 == 6:
			version = 6
		case first >= 0x81 && first <= 0x83: // OSI
			return
		}
	}
	if version == 0 {
		if d.unknown(b); d.showsUnknown() {
			d.require(b, length)
		}
		return
	}
	d.newLine(" ")
	if version == 4 {
		d.ipv4(b, length)
	} else {
		d.ipv6(b, length)
	}
}

// newLine continues after a header: on a new line with -v, after the separator otherwise.
func (d *Dissector) newLine(separator string) {
	if d.o.Verbose > 0 {
		separator = "\n\t"
	}
	d.add(separator)
}
