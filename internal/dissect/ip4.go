package dissect

func (d *Dissector) ipv4(b []byte, length int) {
	d.proto = "ip"
	if version := d.u8(b, 0) >> 4; version != 4 {
		if version == 6 {
			d.add("IP6, wrong link-layer encapsulation")
		} else {
			d.addf("IP%d", version)
		}
		d.invalid()
		return
	}
	d.name("IP ")
	d.require(b, 20)
	if length < 20 {
		d.addf("truncated-ip %d", length)
		return
	}
	size, total := int(b[0]&15)*4, int(d.u16(b, 2))
	if size < 20 {
		d.addf("bad-hlen %d", size)
		return
	}
	if length < total {
		d.addf("truncated-ip - %d bytes missing! ", total-length)
	}
	if total < size {
		if total != 0 {
			d.addf("bad-len %d", total)
			return
		}
		total = length // a packet that the network card will segment (TSO)
	}
	b = limit(b, total)
	fragment := d.u16(b, 6)
	d.net = network{version: 4, src: b[12:16], dst: b[16:20], finalDst: b[16:20], proto: b[9], hops: b[8],
		isFragment: fragment&0x3fff != 0}
	if size > 20 {
		d.net.finalDst = finalDestination(limit(b, size), d.net.dst)
	}
	if d.o.Verbose > 0 {
		d.ip4Header(b, size)
	}
	if fragment&0x1fff != 0 {
		d.hosts()
		d.number("ip-proto-", uint64(d.net.proto))
		return
	}
	if !hasPorts(d.net.proto) {
		d.hosts()
	}
	if size > len(b) {
		d.addf(" [remaining caplen(%d) < header length(%d)]", len(b), size)
		d.truncated()
	}
	d.ipPayload(d.net.proto, b[size:], total-size)
}

// ip4Header appends the fields of the header that -v shows, and the end of its line.
func (d *Dissector) ip4Header(b []byte, size int) {
	tos, fragment, was := b[1], d.u16(b, 6), d.u16(b, 10)
	d.addf("(tos 0x%x%s", tos, [4]string{"", ",ECT(1)", ",ECT(0)", ",CE"}[tos&3])
	if d.net.hops > 0 {
		d.addf(", ttl %d", d.net.hops)
	}
	d.addf(", id %d, offset %d, flags [%s], proto %s (%d), length %d", d.u16(b, 4), int(fragment&0x1fff)*8,
		[8]string{"none", "+", "DF", "+, DF", "rsvd", "+, rsvd", "DF, rsvd", "+, DF, rsvd"}[fragment>>13],
		lookUp(protocolNames, d.net.proto, "unknown"), d.net.proto, d.u16(b, 2))
	whole := true
	if size > 20 {
		d.add(", options (")
		if whole = d.ip4Options(limit(b, size)[20:], size-20); !whole {
			d.add(" [truncated-option]")
		}
		d.add(")")
	}
	if size <= len(b) && !d.o.Unverified {
		if computed := checksum(b[:size], 0); computed != 0 {
			d.addf(", bad cksum %x (->%x)!", was, rightSum(was, computed))
		}
	}
	d.add(")\n    ")
	if !whole {
		d.hosts()
		d.truncated()
	}
}

var ip4OptionNames = map[uint8]string{0: "EOL", 1: "NOP", 68: "timestamp", 130: "security", 7: "RR", 137: "SSRR", 131: "LSRR",
	148: "RA", 82: "traceroute"}

// ip4Options appends the options of length bytes. It returns false if bytes of an option are
// missing.
func (d *Dissector) ip4Options(b []byte, length int) bool {
	for separator := ""; length > 0; separator = "," {
		code := d.u8(b, 0)
		d.add(separator)
		d.add(lookUp(ip4OptionNames, code, "unknown %d"))
		n := 1
		if code > 1 {
			if n = int(d.u8(b, 1)); n < 2 {
				d.addf(" [bad length %d]", n)
				return true
			}
		}
		if n > length {
			d.addf(" [bad length %d]", n)
			return true
		}
		if n > len(b) {
			return false
		}
		switch code {
		case 0: // end
			return true
		case 68: // timestamps
			d.ip4Timestamps(b[:n])
		case 7, 137, 131: // routes
			d.ip4Route(b[:n])
		case 148: // router alert
			if n < 4 {
				d.addf(" [bad length %d]", n)
			} else if value := d.u16(b, 2); value != 0 {
				d.addf(" value %d", value)
			}
		}
		b, length = b[n:], length-n
	}
	return true
}

// ip4Route appends the addresses of a source route or a recorded route.
func (d *Dissector) ip4Route(option []byte) {
	n := len(option)
	if n < 3 {
		d.addf(" [bad length %d]", n)
		return
	}
	if (n+1)&3 != 0 {
		d.addf(" [bad length %d]", n)
	}
	next := int(option[2]) - 1
	if next < 3 || (next+1)&3 != 0 || next > n+1 {
		d.addf(" [bad ptr %d]", option[2])
	}
	for at := 3; at < n; at += 4 {
		d.address(" ", d.ip4Addr(option, at))
		if next > at {
			d.add(",")
		}
	}
}

// ip4Timestamps appends the times at which hops received the packet.
func (d *Dissector) ip4Timestamps(option []byte) {
	n := len(option)
	if n < 4 {
		d.addf("[bad length %d]", n)
		return
	}
	kind, size := option[3]&15, 4
	if kind != 0 {
		size = 8
	}
	d.add(" TS{")
	if (n-4)&(size-1) != 0 {
		d.addf("[bad length %d]", n)
	}
	next := int(option[2]) - 1
	if next < 4 || (next-4)&(size-1) != 0 || next > n+1 {
		d.addf("[bad ptr %d]", option[2])
	}
	at := 0
	if name, known := map[byte]string{0: "TSONLY", 1: "TS+ADDR", 3: "PRESPEC"}[kind]; known {
		d.add(name)
		for at = 4; at < n; at += size {
			separator, host := " ", ""
			if next == at {
				separator = " ^ "
			}
			if size == 8 {
				host = d.ip4Addr(option, at).String()
			}
			d.addf("%s%d@%s", separator, d.u32(option, at+size-4), host)
		}
	} else {
		d.addf("[bad ts type %d]", kind)
	}
	if next == at {
		d.add(" ^ ")
	}
	if missed := option[3] >> 4; missed != 0 {
		d.addf(" [%d hops not recorded]} ", missed)
	} else {
		d.add("}")
	}
}

// finalDestination returns the end of a source route, or the header's destination.
func finalDestination(header, dst []byte) []byte {
	for b := skip(header, 20); len(b) > 0 && b[0] != 0; {
		n := 1
		if b[0] != 1 {
			if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
				return dst
			}
			n = int(b[1])
		}
		if (b[0] == 131 || b[0] == 137) && n >= 7 {
			return b[n-4 : n]
		}
		b = b[n:]
	}
	return dst
}
