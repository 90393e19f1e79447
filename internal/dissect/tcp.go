package dissect

import "github.com/xdpcap/xdpcap/internal/headers"

// Flags of a TCP header.
const (
	tcpFin, tcpSyn, tcpRst = 1, 2, 4
	tcpAck, tcpUrg         = 16, 32
)

func (d *Dissector) tcp(b []byte, length int) {
	d.proto = "tcp"
	if len(b) < 4 {
		d.portless()
		return
	}
	src, dst := d.u16(b, 0), d.u16(b, 2)
	d.ports(headers.TCP, src, dst)
	d.require(b, 20)
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
	if d.o.Verbose > 0 && !d.o.Unverified && !d.net.isFragment && len(b) >= length {
		d.tcpChecksum(b[:length])
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
	if payload == 0 {
		return
	}
	if size > len(b) {
		d.addf(" [remaining caplen(%d) < header length(%d)]", len(b), size)
		d.truncated()
	}
	either := func(port uint16) bool { return src == port || dst == port }
	switch rest := b[size:]; {
	case flags&tcpRst != 0 && d.o.Verbose > 0:
		d.tcpReset(rest, payload)
	case either(80), either(8080):
		d.http(rest, payload)
	case either(53):
		d.dnsStream(rest, payload)
	}
}

// tcpChecksum appends the checksum of a segment, and whether it is right.
func (d *Dissector) tcpChecksum(b []byte) {
	was := d.u16(b, 16)
	d.addf(", cksum 0x%04x", was)
	switch computed := checksum(b, d.net.pseudoHeader(len(b), headers.TCP)); {
	case computed == 0:
		d.add(" (correct)")
	case d.net.isUnfinished(was, len(b), headers.TCP):
		d.addf(" (unfinished -> 0x%04x)", rightSum(was, computed))
	default:
		d.addf(" (incorrect -> 0x%04x)", rightSum(was, computed))
	}
}

// portless ends the line of a header whose ports are missing.
func (d *Dissector) portless() {
	switch {
	case d.proto == "tcp":
		d.hosts()
		d.line = d.line[:len(d.line)-1] // without the space at their end
	case d.net.proto == headers.UDP:
		d.hosts()
	}
	d.truncated()
}

func (d *Dissector) tcpFlags(flags byte) {
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
