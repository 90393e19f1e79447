package dissect

var multipathNames = [...]string{"capable", "join", "dss", "add-addr", "rem-addr", "prio", "fail", "fast-close", "unknown"}

// multipath appends an option of MPTCP (RFC 8684) with the value b. It returns false if the option
// is invalid.
func (d *Dissector) multipath(b []byte, flags byte) bool {
	d.proto = "mptcp"
	size := len(b)
	if size == 0 {
		return false
	}
	kind := min(b[0]>>4, 8)
	low := b[0] & 15
	d.addf(" %d %s", size+2, multipathNames[kind])
	ok := true
	switch kind {
	case 0: // capable
		ok = d.multipathCapable(b, low, flags)
	case 1: // join
		ok = d.multipathJoin(b, low, flags)
	case 2: // data sequence
		ok = size >= 2 && flags&tcpSyn == 0 && d.multipathSequence(b)
	case 3: // add an address
		ok = d.multipathAddress(b, low)
	case 4: // remove addresses
		if ok = size >= 2; ok {
			d.add(" id")
			for _, id := range b[1:] {
				d.addf(" %d", id)
			}
		}
	case 5: // priority
		if ok = size == 1 || size == 2; ok {
			d.add([2]string{" non-backup", " backup"}[low&1])
			if size == 2 {
				d.addf(" id %d", b[1])
			}
		}
	case 6: // fail
		if ok = size == 10; ok {
			d.addf(" seq %d", d.u64(b, 2))
		}
	case 7: // fast close
		if ok = size == 10; ok {
			d.addf(" key 0x%x", d.u64(b, 2))
		}
	}
	if ok {
		d.proto = "tcp"
	}
	return ok
}

func (d *Dissector) multipathCapable(b []byte, version, flags byte) bool {
	n := len(b)
	syn, ack := flags&tcpSyn != 0, flags&(tcpSyn|tcpAck) == tcpAck
	if !(syn && (n == 10 || n == 2)) && !(ack && (n == 18 || n == 20)) {
		return false
	}
	if version > 1 {
		d.addf(" Unknown Version (%d)", version)
		return true
	}
	d.addf(" v%d", version)
	if b[1]&0x80 != 0 {
		d.add(" csum")
	}
	if n >= 10 {
		d.addf(" {0x%x", d.u64(b, 2))
		if n >= 18 {
			d.addf(",0x%x", d.u64(b, 10))
		}
		d.add("}")
	}
	return true
}

func (d *Dissector) multipathJoin(b []byte, low, flags byte) bool {
	n := len(b)
	syn, ack := flags&tcpSyn != 0, flags&tcpAck != 0
	if !(n == 10 && syn) && !(n == 14 && syn && ack) && !(n == 22 && ack) {
		return false
	}
	if n == 22 {
		d.addf(" hmac 0x%x", b[2:22])
		return true
	}
	if low&1 != 0 {
		d.add(" backup")
	}
	d.addf(" id %d", b[1])
	if n == 10 {
		d.addf(" token 0x%x nonce 0x%x", d.u32(b, 2), d.u32(b, 6))
	} else {
		d.addf(" hmac 0x%x nonce 0x%x", d.u64(b, 2), d.u32(b, 10))
	}
	return true
}

// multipathSequence appends the sequence numbers of the data that the subflows carry.
func (d *Dissector) multipathSequence(b []byte) bool {
	flags := b[1]
	if flags&0x10 != 0 {
		d.add(" fin")
	}
	b = b[2:]
	value := func(name string, long bool) bool {
		d.add(name)
		switch {
		case long && len(b) >= 8:
			d.number("", d.u64(b, 0))
			b = b[8:]
		case !long && len(b) >= 4:
			d.number("", uint64(d.u32(b, 0)))
			b = b[4:]
		default:
			return false
		}
		return true
	}
	if flags&1 != 0 && !value(" ack ", flags&2 != 0) {
		return false
	}
	if flags&4 != 0 {
		if !value(" seq ", flags&8 != 0) || len(b) < 4 {
			return false
		}
		d.addf(" subseq %d", d.u32(b, 0))
		if b = b[4:]; len(b) < 2 {
			return false
		}
		d.addf(" len %d", d.u16(b, 0))
		if b = b[2:]; len(b) >= 2 {
			d.addf(" csum 0x%x", d.u16(b, 0))
			b = b[2:]
		}
	}
	return len(b) == 0
}

func (d *Dissector) multipathAddress(b []byte, low byte) bool {
	n := len(b)
	address := 4
	switch n {
	case 6, 8, 14, 16:
	case 18, 20, 26, 28:
		address = 16
	default:
		return false
	}
	d.addf(" %s id %d", lookUp(map[byte]string{6: "v0-ip6", 4: "v0-ip4", 1: "v1-echo", 0: "v1"}, low, "[bad version/echo]"), b[1])
	d.addf(" %s", addr(b[2:2+address]))
	b = b[2+address:]
	if len(b) == 2 || len(b) == 10 {
		d.addf(":%d", d.u16(b, 0))
		b = b[2:]
	}
	if len(b) == 8 {
		d.addf(" hmac 0x%x", d.u64(b, 0))
	}
	return true
}
