package dissect

import "github.com/xdpcap/xdpcap/internal/headers"

func (d *Dissector) udp(b []byte, length int) {
	d.proto = "udp"
	if len(b) < 4 {
		d.portless()
		return
	}
	src, dst := d.u16(b, 0), d.u16(b, 2)
	d.ports(headers.UDP, src, dst)
	if length < 8 {
		d.addf("truncated-udp %d", length)
		return
	}
	size := int(d.u16(b, 4))
	if size == 0 && length > 65535 { // a jumbogram
		size = length
	}
	if size < 8 {
		d.addf("truncated-udplength %d", size)
		return
	}
	d.require(b, 8)
	size, length = size-8, length-8
	length = min(length, size)
	if d.o.Verbose > 0 && !d.o.Unverified {
		d.udpChecksum(b, length)
	}
	if !d.o.Quiet && d.udpPayload(src, dst, limit(b[8:], length), length) {
		return
	}
	if size > length && !d.net.isFragment {
		d.addf("UDP, bad length %d > %d", size, length)
	} else {
		d.number("UDP, length ", uint64(size))
	}
}

// udpPayload appends the message of the protocol to which one of the ports belongs. It returns
// false if it cannot decode that.
func (d *Dissector) udpPayload(src, dst uint16, b []byte, length int) bool {
	either := func(port uint16) bool { return src == port || dst == port }
	switch {
	case either(53):
		d.dns(b, length, false)
	case either(5353):
		d.dns(b, length, true)
	case either(67), either(68):
		d.bootp(b, length)
	case either(123):
		d.ntp(b, length)
	case either(4789):
		d.vxlan(b, length)
	case either(6081):
		d.geneve(b, length)
	case either(6635):
		d.mpls(b, length)
	default:
		return false
	}
	return true
}

// udpChecksum appends whether the checksum is right. With a single -v it omits IPv4's, because that
// is optional.
func (d *Dissector) udpChecksum(b []byte, length int) {
	if d.net.isFragment || d.net.version == 4 && d.o.Verbose < 2 {
		return
	}
	was := d.u16(b, 6)
	if was == 0 && d.net.version == 4 {
		d.add("[no cksum] ")
		return
	}
	if len(b) < length+8 {
		return
	}
	switch computed := checksum(b[:length+8], d.net.pseudoHeader(length+8, headers.UDP)); {
	case computed == 0:
		d.add("[udp sum ok] ")
	case d.net.isUnfinished(was, length+8, headers.UDP):
		d.addf("[unfinished udp cksum 0x%04x -> 0x%04x] ", was, rightSum(was, computed))
	default:
		d.addf("[bad udp cksum 0x%04x -> 0x%04x!] ", was, rightSum(was, computed))
	}
}
