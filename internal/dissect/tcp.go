package dissect

import (
	"encoding/hex"

	"github.com/gopacket/gopacket/layers"
)

// Flags of a TCP header.
const (
	tcpFin, tcpSyn, tcpRst = 1, 2, 4
	tcpAck, tcpUrg         = 16, 32
)

func (d *Dissector) tcpSegment(b []byte, length int) {
	d.proto = "tcp"
	if len(b) < 4 {
		d.portless()
		return
	}
	src, dst := d.u16(b, 0), d.u16(b, 2)
	d.ports(layers.IPProtocolTCP, src, dst)
	if !d.has(b, 20) {
		return
	}
	size := int(b[12]>>4) * 4
	switch {
	case size < 20:
		d.addf(" tcp %d [bad hdr length %d - too short, < 20]", uint32(length-size), size)
		return
	case d.o.Quiet:
		d.number("tcp ", uint64(uint32(length-size)))
		if size > length {
			d.addf(" [bad hdr length %d - too long, > %d]", size, length)
		}
		return
	}
	flags := b[13]
	d.tcpFlags(flags)
	if size > length {
		d.addf(" [bad hdr length %d - too long, > %d]", size, length)
		return
	}
	if d.o.Verbose > 0 && !d.net.fragment && len(b) >= length {
		was := d.u16(b, 16)
		d.addf(", cksum 0x%04x", was)
		if computed := checksum(b[:length], d.net.pseudoHeader(length, 6)); computed != 0 {
			d.addf(" (incorrect -> 0x%04x)", rightSum(was, computed))
		} else {
			d.add(" (correct)")
		}
	}
	payload := length - size
	if sequence := d.u32(b, 4); d.o.Verbose > 1 || payload > 0 || flags&(tcpSyn|tcpFin|tcpRst) != 0 {
		d.number(", seq ", uint64(sequence))
		if payload > 0 {
			d.number(":", uint64(sequence+uint32(payload)))
		}
	}
	if flags&tcpAck != 0 {
		d.number(", ack ", uint64(d.u32(b, 8)))
	}
	d.number(", win ", uint64(d.u16(b, 14)))
	if flags&tcpUrg != 0 {
		d.number(", urg ", uint64(d.u16(b, 18)))
	}
	if size > 20 && !d.tcpOptions(b[20:], size-20, flags) {
		return
	}
	d.number(", length ", uint64(payload))
	if payload == 0 || d.ended {
		return
	}
	if size > len(b) {
		d.addf(" [remaining caplen(%d) < header length(%d)]", len(b), size)
		d.truncated()
		return
	}
	if rest := b[size:]; flags&tcpRst != 0 && d.o.Verbose > 0 {
		d.tcpReset(rest, payload)
	} else if src == 53 || dst == 53 {
		d.dnsStream(rest, payload)
	} else if either := func(port uint16) bool { return src == port || dst == port }; either(80) || either(8080) {
		d.http(rest, payload)
	}
}

// portless ends the line of a header whose ports are missing.
func (d *Dissector) portless() {
	if d.ended {
		return
	}
	switch {
	case d.proto == "tcp":
		d.hosts()
		d.line = d.line[:len(d.line)-1] // without the space at their end
	case d.net.proto == layers.IPProtocolUDP:
		d.hosts()
	}
	d.truncated()
}

func (d *Dissector) tcpFlags(flags byte) {
	if d.ended {
		return
	}
	d.line = append(d.line, "Flags ["...)
	for i := range 8 {
		if flags>>i&1 != 0 {
			d.line = append(d.line, "FSRP.UEW"[i])
		}
	}
	if flags == 0 {
		d.line = append(d.line, "none"...)
	}
	d.line = append(d.line, ']')
}

// tcpReset appends the reason that a RST segment may carry.
func (d *Dissector) tcpReset(b []byte, length int) {
	if length <= len(b) {
		d.add(" [RST")
	} else {
		d.add(" [!RST")
	}
	if length > 30 {
		length = 30
		d.add("+")
	}
	d.add(" ")
	d.quoted(limit(b, length))
	d.add("]")
}

var tcpOptionNames = map[uint8]string{0: "eol", 1: "nop", 2: "mss", 3: "wscale", 4: "sackOK", 5: "sack", 6: "echo",
	7: "echoreply", 8: "TS", 11: "cc", 12: "ccnew", 13: "", 19: "md5", 20: "scps", 28: "uto", 29: "tcp-ao", 30: "mptcp",
	34: "tfo", 254: "exp"}

// tcpOptions appends the options of length bytes. It returns false if they end the line.
func (d *Dissector) tcpOptions(b []byte, length int, flags byte) bool {
	d.add(", options [")
	for first := true; length > 0 && !d.ended; first = false {
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
	return !d.ended
}

// tcpOption appends the value of an option, which has size bytes of b. left is the number of bytes
// until the options end. It returns the size of the value, or -1 if it is wrong.
func (d *Dissector) tcpOption(kind uint8, b []byte, size, left int, flags byte) (used int) {
	need := func(n int) bool { return n <= left && (d.has(b, n) || true) }
	switch kind {
	case 0, 1, 4:
		return 0
	case 2:
		if used = 2; need(used) {
			d.number(" ", uint64(d.u16(b, 0)))
			return used
		}
	case 3:
		if used = 1; need(used) {
			d.number(" ", uint64(d.u8(b, 0)))
			return used
		}
	case 5:
		if size%8 != 0 {
			d.add(" invalid sack")
			return size
		}
		d.addf(" %d ", size/8)
		for at := 0; at < size && !d.ended; at += 8 {
			d.addf("{%d:%d}", d.u32(b, at), d.u32(b, at+4))
		}
		return size
	case 6, 7, 11, 12, 13:
		if used = 4; need(used) {
			d.addf(" %d", d.u32(b, 0))
			return used
		}
	case 8:
		if used = 8; need(used) {
			d.number(" val ", uint64(d.u32(b, 0)))
			d.number(" ecr ", uint64(d.u32(b, 4)))
			return used
		}
	case 19:
		if used = 16; need(used) {
			d.addf(" can't check - %s", hex.EncodeToString(d.bytes(b, 0, 16)))
			return used
		}
	case 20:
		if used = 2; need(used) {
			d.addf(" cap %02x id %d", d.u8(b, 0), d.u8(b, 1))
			return used
		}
	case 28:
		if used = 2; need(used) {
			value := d.u16(b, 0)
			seconds := int(value >> 1)
			if value&1 != 0 {
				seconds *= 60
			}
			d.addf(" 0x%x %d", value, seconds)
			return used
		}
	case 29:
		if size < 2 {
			d.invalid()
			return size
		}
		d.addf(" keyid %d rnextkeyid %d", d.u8(b, 0), d.u8(b, 1))
		if size > 2 {
			d.addf(" mac 0x%s", hex.EncodeToString(d.bytes(b, 2, size-2)))
		}
		return size
	case 30:
		if !d.has(b, size) || d.multipath(b, size, flags) {
			return size
		}
		d.proto = "tcp"
	case 34:
		if need(size) {
			d.add(" ")
			d.fastOpen(b, size)
			return size
		}
	case 254:
		if size < 2 {
			return -1
		}
		if magic := d.u16(b, 0); magic == 0xf989 {
			d.add("-tfo")
			d.fastOpen(skip(b, 2), size-2)
		} else {
			d.addf("-%04x", magic)
		}
		return size
	default:
		if size > 0 {
			d.addf(" 0x%s", hex.EncodeToString(d.bytes(b, 0, size)))
		}
		return size
	}
	return -1
}

func (d *Dissector) fastOpen(b []byte, size int) {
	switch {
	case size == 0:
		d.add(" cookiereq")
	case size%2 != 0 || size < 4 || size > 16:
		d.invalid()
	default:
		d.addf(" cookie %s", hex.EncodeToString(d.bytes(b, 0, size)))
	}
}

var multipathNames = [...]string{"capable", "join", "dss", "add-addr", "rem-addr", "prio", "fail", "fast-close", "unknown"}

// multipath appends an option of MPTCP (RFC 8684), whose value b has size bytes. It returns false
// if the option is wrong.
func (d *Dissector) multipath(b []byte, size int, flags byte) bool {
	d.proto = "mptcp"
	if size < 1 {
		return false
	}
	kind := min(d.u8(b, 0)>>4, 8)
	low := d.u8(b, 0) & 15
	d.addf(" %d %s", size+2, multipathNames[kind])
	ok := true
	switch b = limit(b, size); kind {
	case 0:
		ok = d.multipathCapable(b, low, flags)
	case 1:
		ok = d.multipathJoin(b, low, flags)
	case 2:
		ok = size >= 2 && flags&tcpSyn == 0 && d.multipathSequence(b)
	case 3:
		ok = d.multipathAddress(b, low)
	case 4:
		if ok = size >= 2; ok {
			d.add(" id")
			for _, id := range b[1:] {
				d.addf(" %d", id)
			}
		}
	case 5:
		if ok = size == 1 || size == 2; ok {
			d.add([2]string{" non-backup", " backup"}[low&1])
			if size == 2 {
				d.addf(" id %d", b[1])
			}
		}
	case 6:
		if ok = size == 10; ok {
			d.addf(" seq %d", d.u64(b, 2))
		}
	case 7:
		if ok = size == 10; ok {
			d.addf(" key 0x%x", d.u64(b, 2))
		}
	}
	if ok && !d.ended {
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
		d.addf(" hmac 0x%s", hex.EncodeToString(b[2:22]))
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
