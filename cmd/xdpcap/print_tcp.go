package main

// tcpFlags are the letters of the flags from bit 0.
const tcpFlags = "FSRP.UEW"

const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	_
	flagACK
	flagURG
)

func (p *printer) tcp(n *network, b []byte, length int) {
	if len(b) < 4 {
		if !n.named {
			p.addf("%s > %s:", n.src, n.dst)
		}
		p.cut("tcp")
		return
	}
	p.ports(n, be.Uint16(b), be.Uint16(b[2:]))
	if len(b) < 20 {
		p.cut("tcp")
		return
	}
	hlen := int(b[12]>>4) * 4
	if hlen < 20 {
		p.addf(" tcp %d [bad hdr length %d - too short, < 20]", length-hlen, hlen)
		return
	}
	if p.verbosity < 0 {
		p.addf("tcp %d", length-hlen)
		if hlen > length {
			p.addf(" [bad hdr length %d - too long, > %d]", hlen, length)
		}
		return
	}
	flags := b[13]
	p.add("Flags [")
	for i := range len(tcpFlags) {
		if flags>>i&1 != 0 {
			p.add(tcpFlags[i : i+1])
		}
	}
	if flags == 0 {
		p.add("none")
	}
	p.add("]")
	if hlen > length {
		p.addf(" [bad hdr length %d - too long, > %d]", hlen, length)
		return
	}
	if p.verbosity > 0 && !n.partial && len(b) >= length {
		p.addf(", cksum 0x%04x", be.Uint16(b[16:]))
		if ok, want := n.checksum(b[:length], 16); ok {
			p.add(" (correct)")
		} else {
			p.addf(" (incorrect -> 0x%04x)", want)
		}
	}
	length -= hlen
	if p.verbosity > 1 || length > 0 || flags&(flagSYN|flagFIN|flagRST) != 0 {
		seq := be.Uint32(b[4:])
		p.addf(", seq %d", seq)
		if length > 0 {
			p.addf(":%d", seq+uint32(length))
		}
	}
	if flags&flagACK != 0 {
		p.addf(", ack %d", be.Uint32(b[8:]))
	}
	p.addf(", win %d", be.Uint16(b[14:]))
	if flags&flagURG != 0 {
		p.addf(", urg %d", be.Uint16(b[18:]))
	}
	if hlen > 20 && !p.tcpOptions(b[20:min(hlen, len(b))], hlen-20) {
		return
	}
	p.addf(", length %d", length)
}

var tcpOptions = map[uint8]string{
	0: "eol", 1: "nop", 2: "mss", 3: "wscale", 4: "sackOK", 5: "sack", 8: "TS", 19: "md5", 28: "uto", 29: "tcp-ao",
	30: "mptcp", 34: "tfo",
}

// tcpOptions prints the options b, on the wire length bytes. It is false where they are cut or wrong, which ends the
// line.
func (p *printer) tcpOptions(b []byte, length int) bool {
	p.add(", options [")
	for first := true; length > 0; first = false {
		if !first {
			p.add(",")
		}
		if len(b) == 0 {
			p.cut("tcp")
			return false
		}
		kind, size := b[0], 1
		if kind > 1 {
			if len(b) < 2 {
				p.cut("tcp")
				return false
			}
			if size = int(b[1]); size < 2 || size > length {
				p.add("[bad opt]")
				if !first {
					p.add("]")
				}
				return false
			}
		}
		if name, ok := tcpOptions[kind]; ok {
			p.add(name)
		} else {
			p.addf("unknown-%d", kind)
		}
		if len(b) < size {
			p.cut("tcp")
			return false
		}
		if kind == 0 {
			break // what follows is padding
		}
		if kind > 1 {
			p.tcpOption(kind, b[2:size])
		}
		b, length = b[size:], length-size
	}
	p.add("]")
	return true
}

// tcpOption prints an option's value.
func (p *printer) tcpOption(kind uint8, v []byte) {
	switch {
	case kind == 2 && len(v) == 2:
		p.addf(" %d", be.Uint16(v))
	case kind == 3 && len(v) == 1:
		p.addf(" %d", v[0])
	case kind == 8 && len(v) == 8:
		p.addf(" val %d ecr %d", be.Uint32(v), be.Uint32(v[4:]))
	case kind == 5 && len(v)%8 == 0:
		p.addf(" %d ", len(v)/8)
		for ; len(v) > 0; v = v[8:] {
			p.addf("{%d:%d}", be.Uint32(v), be.Uint32(v[4:]))
		}
	case kind == 34 && len(v) == 0:
		p.add("  cookiereq")
	case kind == 34:
		p.addf("  cookie %x", v)
	case len(v) > 0:
		p.addf(" 0x%x", v)
	}
}

func (p *printer) udp(n *network, b []byte, length int) {
	if len(b) < 4 {
		p.hosts(n)
		p.cut("udp")
		return
	}
	p.ports(n, be.Uint16(b), be.Uint16(b[2:]))
	switch {
	case length < 8:
		p.addf("truncated-udp %d", length)
		return
	case len(b) < 8:
		p.cut("udp")
		return
	}
	size := int(be.Uint16(b[4:]))
	if size == 0 && length > 65535 {
		size = length // a jumbogram
	}
	if size < 8 {
		p.addf("truncated-udplength %d", size)
		return
	}
	size = min(size, length)
	// As tcpdump does, IPv4's optional checksum is shown from -vv on, IPv6's with -v.
	if v := p.verbosity; (v > 1 || v > 0 && n.src.Is6()) && !n.partial && len(b) >= size {
		ok, want := n.checksum(b[:size], 6)
		switch got := be.Uint16(b[6:]); {
		case got == 0 && n.src.Is4():
			p.add("[no cksum] ")
		case ok:
			p.add("[udp sum ok] ")
		default:
			p.addf("[bad udp cksum 0x%04x -> 0x%04x!] ", got, want)
		}
	}
	p.addf("UDP, length %d", size-8)
}
