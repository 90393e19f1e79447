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
	d.ip6Extensions(&extensions{packet: b, length: length, payload: payload, next: next}, b[40:], total-40)
}

// extensions is the progress in a packet's extension headers.
type extensions struct {
	packet     []byte // from the IPv6 header on
	length     int    // bytes of the packet before it was cut
	payload    int    // the length of the payload in the IPv6 header or of a jumbogram, or 0
	next       uint8  // the next header
	any        bool   // an extension header came before
	hasOptions bool   // hop-by-hop options came before
	isJumbo    bool   // the length was in an option
}

// ip6Extensions appends extension headers, and their payload, in b; rest is the length of b before
// it was cut.
func (d *Dissector) ip6Extensions(e *extensions, b []byte, rest int) {
	for {
		size := 0
		switch e.next {
		case protoHopByHop:
			size = d.hopByHop(e, b)
		case protoDestination:
			d.proto = "dstopt"
			size = d.ip6Options("DSTOPT ", b, nil)
		case protoFragment:
			size = d.ip6Fragment(e, b, rest)
		case protoRouting:
			size = d.ip6Routing(b)
		case protoMobileOld, protoMobility:
			d.addf("%s (%d), length %d", protocolNames[e.next], e.next, rest)
		default:
			d.ip6Payload(e, b, rest)
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

// hopByHop appends hop-by-hop options, and returns their size, or 0 if they are invalid.
func (d *Dissector) hopByHop(e *extensions, b []byte) (size int) {
	switch {
	case e.hasOptions:
		d.add("[The Hop-by-Hop Options header was already found]")
	case e.any:
		d.add("[The Hop-by-Hop Options header don't follow the IPv6 header]")
	default:
		d.proto = "hbhopt"
		size = d.ip6Options("HBH ", b, e)
		e.hasOptions = true
		if e.payload != 0 || e.isJumbo {
			return size
		}
		d.add("[No valid Jumbo Payload Hop-by-Hop option found]")
	}
	d.invalid()
	return 0
}

// ip6Fragment appends a fragment header, and returns its size, or 0 if no header follows.
func (d *Dissector) ip6Fragment(e *extensions, b []byte, rest int) (size int) {
	d.proto = "frag6"
	offset := d.u16(b, 2) &^ 7
	if d.add("frag ("); d.o.Verbose > 0 {
		d.addf("0x%08x:", d.u32(b, 4))
	}
	const header = 8
	data := 40 + int(d.u16(e.packet, 4)) - (len(e.packet) - len(b)) - header
	d.addf("%d|%d)", offset, data)
	if offset != 0 {
		return 0
	}
	d.add(" ")
	if len(b) <= header {
		if d.proto = "ip6"; rest > header {
			d.truncated()
		}
		return 0
	}
	d.net.isFragment = true
	return header
}

// ip6Payload appends the payload after the last extension header.
func (d *Dissector) ip6Payload(e *extensions, b []byte, rest int) {
	switch {
	case e.isJumbo:
		total := e.payload + 40
		if e.length < total {
			d.addf("truncated-ip6 - %d bytes missing!", total-e.length)
		}
		rest = total - (len(e.packet) - len(b))
		if rest < 0 {
			d.proto = "ip6"
			d.truncated()
		}
		b = limit(b, rest)
	case e.payload == 0 && e.any:
		d.proto = "ip6"
		d.truncated()
	case e.payload == 0:
		b, rest = nil, 0
	}
	d.ipPayload(e.next, b, rest)
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
		case e.isJumbo:
			why = " - already seen"
		case e.payload != 0:
			why = " - payload len != 0"
		case length < 65536:
			why = " - < 65536"
		default:
			e.isJumbo, e.payload = true, length
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
