package dissect

var tcpOptionNames = map[uint8]string{0: "eol", 1: "nop", 2: "mss", 3: "wscale", 4: "sackOK", 5: "sack", 6: "echo",
	7: "echoreply", 8: "TS", 11: "cc", 12: "ccnew", 13: "", 19: "md5", 20: "scps", 28: "uto", 29: "tcp-ao", 30: "mptcp",
	34: "tfo", 254: "exp"}

// tcpOptions appends the options of length bytes. It returns false if they end the line.
func (d *Dissector) tcpOptions(b []byte, length int, flags byte) bool {
	d.add(", options [")
	for first := true; length > 0; first = false {
		if !first {
			d.add(",")
		}
		kind, size := d.u8(b, 0), 1
		if kind > 1 {
			if size = int(d.u8(b, 1)); size < 2 || size > length {
				d.add("[bad opt]")
				if !first {
					d.add("]")
				}
				return false
			}
		}
		d.add(lookUp(tcpOptionNames, kind, "unknown-%d"))
		header := min(size, 2)
		used := d.tcpOption(kind, skip(b, header), size-header, length-header, flags)
		if used < 0 {
			d.add("[bad opt]")
			if !first {
				d.add("]")
			}
			return false
		}
		if used += header; used != size {
			d.addf("[len %d]", size)
		}
		if kind == 0 {
			break
		}
		b, length = skip(b, used), length-used
	}
	d.add("]")
	return true
}

// tcpOptionSizes are the sizes in bytes of values that have the same size in every option.
var tcpOptionSizes = [...]int{2: 2, 3: 1, 6: 4, 7: 4, 8: 8, 11: 4, 12: 4, 13: 4, 19: 16, 20: 2, 28: 2}

// tcpOption appends the value of an option, which has size bytes of b. left is the number of bytes
// until the options end. It returns the size of the value, or -1 if it is invalid.
func (d *Dissector) tcpOption(kind uint8, b []byte, size, left int, flags byte) (used int) {
	if int(kind) < len(tcpOptionSizes) && tcpOptionSizes[kind] > 0 {
		if used = tcpOptionSizes[kind]; used > left {
			return -1
		}
		d.require(b, used)
	}
	switch kind {
	case 0, 1, 4: // without a value
		return 0
	case 2: // maximum segment size
		d.number(" ", uint64(d.u16(b, 0)))
		return used
	case 3: // window scale
		d.number(" ", uint64(d.u8(b, 0)))
		return used
	case 6, 7, 11, 12, 13: // echo (RFC 1072) and T/TCP (RFC 1644)
		d.addf(" %d", d.u32(b, 0))
		return used
	case 8: // timestamps
		d.number(" val ", uint64(d.u32(b, 0)))
		d.number(" ecr ", uint64(d.u32(b, 4)))
		return used
	case 19: // a signature by MD5
		d.addf(" can't check - %x", d.bytes(b, 0, used))
		return used
	case 20: // SCPS
		d.addf(" cap %02x id %d", d.u8(b, 0), d.u8(b, 1))
		return used
	case 28: // user timeout
		value := d.u16(b, 0)
		seconds := int(value >> 1)
		if value&1 != 0 {
			seconds *= 60
		}
		d.addf(" 0x%x %d", value, seconds)
		return used
	case 5: // selective acknowledgments
		if size%8 != 0 {
			d.add(" invalid sack")
			return size
		}
		d.addf(" %d ", size/8)
		for at := 0; at < size; at += 8 {
			d.addf("{%d:%d}", d.u32(b, at), d.u32(b, at+4))
		}
	case 29: // authentication
		if size < 2 {
			d.invalid()
			return size
		}
		d.addf(" keyid %d rnextkeyid %d", d.u8(b, 0), d.u8(b, 1))
		if size > 2 {
			d.addf(" mac 0x%x", d.bytes(b, 2, size-2))
		}
	case 30: // MPTCP
		d.require(b, size)
		if !d.multipath(b[:size], flags) {
			d.proto = "tcp"
			return -1
		}
	case 34: // fast open
		if size > left {
			return -1
		}
		d.require(b, size)
		d.add(" ")
		d.fastOpen(b, size)
	case 254: // an experiment, by its number
		if size < 2 {
			return -1
		}
		if magic := d.u16(b, 0); magic == 0xf989 {
			d.add("-tfo")
			d.fastOpen(skip(b, 2), size-2)
		} else {
			d.addf("-%04x", magic)
		}
	default:
		if size > 0 {
			d.addf(" 0x%x", d.bytes(b, 0, size))
		}
	}
	return size
}

func (d *Dissector) fastOpen(b []byte, size int) {
	switch {
	case size == 0:
		d.add(" cookiereq")
	case size%2 != 0 || size < 4 || size > 16:
		d.invalid()
	default:
		d.addf(" cookie %x", d.bytes(b, 0, size))
	}
}
