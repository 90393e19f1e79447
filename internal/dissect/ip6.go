package dissect

func (d *Dissector) ipv6(b []byte, length int) {
	d.proto = "ip6"
	d.require(b, 40)
	if length < 40 {
		d.addf("truncated-ip6 %d", length)
		return
	}
	d.name("IP6 ")
	if version := b[0] >> 4; version != 6 {
		d.addf("version error: %d != 6", version)
		return
	}
	payload := int(d.u16(b, 4))
	total := payload + 40
	if payload == 0 {
		total = length + 40 // perhaps a jumbogram, whose length is in an option
	} else if length < total {
		d.addf("truncated-ip6 - %d bytes missing!", total-length)
	}
	next := b[6]
	d.net = network{version: 6, src: b[8:24], dst: b[24:40], finalDst: b[24:40], proto: next, hops: b[7]}
	if d.o.Verbose > 0 {
		d.add("(")
		flow := d.u32(b, 0)
		if class := flow >> 20 & 0xff; class != 0 {
			d.addf("class 0x%02x, ", class)
		}
		if label := flow & 0xfffff; label != 0 {
			d.addf("flowlabel 0x%05x, ", label)
		}
		d.addf("hlim %d, next-header %s (%d) payload length: %d) ", b[7], lookUp(protocolNames, next, "unknown"), next, payload)
	}
	b = limit(b, total)
	if !hasPorts(next) {
		d.hosts()
	}
	d.ip6Extensions(extensions{header: b, payload: payload, next: next}, b[40:], length, total-40)
}

// extensions is the progress in a packet's extension headers.
type extensions struct {
	header       []byte // from the IPv6 header on
	payload      int    // the length after that header, or 0
	next         uint8
	any, options bool // an extension header, or hop-by-hop options, came before
	jumbo        bool // the length was in an option
}

// ip6Extensions appends extension headers, and their payload in rest bytes. The whole packet has
// length bytes.
func (d *Dissector) ip6Extensions(e extensions, b []byte, length, rest int) {
	for {
		size := 0
		switch e.next {
		case protoHopByHop:
			if e.options {
				d.add("[The Hop-by-Hop Options header was already found]")
				d.invalid()
				return
			}
			if e.any {
				d.add("[The Hop-by-Hop Options header don't follow the IPv6 header]")
				d.invalid()
				return
			}
			d.proto = "hbhopt"
			size = d.ip6Options("HBH ", b, &e)
			if e.payload == 0 && !e.jumbo {
				d.add("[No valid Jumbo Payload Hop-by-Hop option found]")
				d.invalid()
				return
			}
			e.options = true
		case protoDestination:
			d.proto = "dstopt"
			size = d.ip6Options("DSTOPT ", b, nil)
		case protoFragment:
			d.proto = "frag6"
			place := d.u16(b, 2)
			if d.add("frag ("); d.o.Verbose > 0 {
				d.addf("0x%08x:", d.u32(b, 4))
			}
			behind := 40 + int(d.u16(e.header, 4)) - (len(e.header) - len(b)) - 8
			d.addf("%d|%d)", place&0xfff8, behind)
			if place&0xfff8 != 0 {
				return
			}
			d.add(" ")
			size = 8
			if len(b) <= size {
				if d.proto = "ip6"; rest > size {
					d.truncated()
				}
				return
			}
			d.net.isFragment = true
		case protoRouting:
			size = d.ip6Routing(b)
		case protoMobileOld, protoMobility:
			d.addf("%s (%d), length %d", protocolNames[e.next], e.next, rest)
			return
		default:
			if e.jumbo {
				seen := len(e.header) - len(b)
				if total := e.payload + 40; length < total {
					d.addf("truncated-ip6 - %d bytes missing!", total-length)
				}
				rest = e.payload + 40 - seen
				if rest < 0 {
					d.proto = "ip6"
					d.truncated()
				}
				b = limit(b, rest)
			} else if e.payload == 0 {
				if e.any {
					d.proto = "ip6"
					d.truncated()
				}
				b, rest = b[:0], 0
			}
			d.ipPayload(e.next, b, rest)
			return
		}
		if size == 0 {
			return
		}
		d.proto = "ip6"
		if rest < size {
			d.truncated()
		}
		e.any, e.next = true, b[0]
		b, rest = skip(b, size), rest-size
	}
}

// ip6Options appends a header of options, and returns its size. From hop-by-hop options it stores a
// jumbogram's length in e.
func (d *Dissector) ip6Options(name string, b []byte, e *extensions) int {
	size := (int(d.u8(b, 1)) + 1) * 8
	d.require(b, size)
	d.add(name)
	if e == nil && d.o.Verbose == 0 {
		return size
	}
	for options := b[2:size]; len(options) > 0; {
		kind, n := options[0], 1
		if kind != 0 {
			n = int(d.u8(options, 1)) + 2
			d.require(options, n)
		}
		if d.o.Verbose > 0 || kind == 0xc2 || kind == 5 || kind == 0xc9 {
			d.ip6Option(kind, options[:n], e)
		}
		options = options[n:]
	}
	if d.o.Verbose > 0 {
		d.add(" ")
	}
	return size
}

// ip6Option appends one option. A wrong length ends the line.
func (d *Dissector) ip6Option(kind uint8, option []byte, e *extensions) {
	n := len(option)
	show := d.o.Verbose > 0
	require := func(isValid bool, name string) {
		if !isValid {
			d.addf("(%s: invalid len %d)", name, n-2)
			d.truncated()
		}
	}
	switch kind {
	case 0:
		d.add("(pad1)")
	case 1:
		d.add("(padn)")
	case 5:
		require(n == 4, "rtalert")
		if show {
			d.addf("(rtalert: 0x%04x) ", d.u16(option, 2))
		}
	case 0xc2:
		require(n == 6, "jumbo")
		length, why := int(d.u32(option, 2)), ""
		switch {
		case e == nil:
			why = " - not a hop-by-hop option"
		case e.jumbo:
			why = " - already seen"
		case e.payload != 0:
			why = " - payload len != 0"
		case length < 65536:
			why = " - < 65536"
		default:
			e.jumbo, e.payload = true, length
		}
		if show {
			d.addf("(jumbo: %d%s) ", length, why)
		}
	case 0xc9:
		require(n >= 18, "homeaddr")
		if show {
			d.addf("(homeaddr: %s)", d.ip6Addr(option, 2))
		}
	default:
		d.addf("(opt_type 0x%02x: len=%d)", kind, n-2)
	}
}

// ip6Routing appends a routing header, and returns its size, or 0 if it is invalid.
func (d *Dissector) ip6Routing(b []byte) int {
	d.proto = "ip6"
	d.require(b, 1)
	d.proto = "rt6"
	d.add("RT6")
	words, kind := int(d.u8(b, 1)), d.u8(b, 2)
	d.addf(" (len=%d", words)
	d.addf(", type=%d", kind)
	if kind == 0 {
		d.add(" [Deprecated]")
	}
	left := d.u8(b, 3)
	d.addf(", segleft=%d", left)
	switch kind {
	case 0, 2:
		if reserved := d.u32(b, 4); reserved != 0 || d.o.Verbose > 0 {
			d.addf(", rsv=0x%0x", reserved)
		}
	case 4:
		d.addf(", last-entry=%d", d.u8(b, 4))
		if flags := d.u8(b, 5); flags != 0 || d.o.Verbose > 0 {
			d.addf(", flags=0x%0x", flags)
		}
		d.addf(", tag=%x", d.u16(b, 6))
	default:
		d.add(" (unknown type)")
		d.invalid()
		return 0
	}
	if words%2 == 1 {
		d.addf(" (invalid length %d)", words)
		d.invalid()
		return 0
	}
	for i := range words / 2 {
		hop := d.ip6Addr(b, 8+16*i)
		d.number(", [", uint64(i))
		d.address("]", hop)
	}
	d.add(") ")
	// The destination is the last address of the list, or the first one of a segment route.
	if left > 0 && words >= 2 {
		at := 8 + 8*(words-2)
		if kind == 4 {
			at = 8
		}
		d.net.finalDst = d.bytes(b, at, 16)
	}
	return (words + 1) * 8
}
