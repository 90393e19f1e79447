package dissect

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// unreachable are the reasons of ICMP's destination unreachable by code, with the destination.
var unreachable = map[uint8]string{0: "net %s unreachable", 1: "host %s unreachable", 5: "%s unreachable - source route failed",
	6: "net %s unreachable - unknown", 7: "host %s unreachable - unknown", 8: "%s unreachable - source host isolated",
	9: "net %s unreachable - admin prohibited", 10: "host %s unreachable - admin prohibited",
	11: "net %s unreachable - tos prohibited", 12: "host %s unreachable - tos prohibited",
	13: "host %s unreachable - admin prohibited filter", 14: "host %s unreachable - host precedence violation",
	15: "host %s unreachable - precedence cutoff"}

var (
	redirects = map[uint8]string{0: "redirect %s to net %s", 1: "redirect %s to host %s", 2: "redirect-tos %s to net %s",
		3: "redirect-tos %s to host %s"}
	icmpExceeded = map[uint8]string{0: "time exceeded in-transit", 1: "ip reassembly time exceeded"}
	icmpNames    = map[uint8]string{0: "echo reply", 4: "source quench", 8: "echo request", 10: "router solicitation",
		15: "information request", 16: "information reply", 17: "address mask request"}
)

func (d *Dissector) icmp(b []byte, length int) {
	d.proto = "icmp"
	kind, code := d.u8(b, 0), d.u8(b, 1)
	text := ""
	switch kind {
	case 0, 8: // echo
		text = fmt.Sprintf("%s, id %d, seq %d", icmpNames[kind], d.u16(b, 4), d.u16(b, 6))
	case 3: // unreachable
		text = d.icmpUnreachable(b, code)
	case 5: // redirect
		gateway, dst := d.ip4Addr(b, 4), d.ip4Addr(b, 24)
		if format, ok := redirects[code]; ok {
			text = fmt.Sprintf(format, dst, gateway)
		} else {
			text = fmt.Sprintf("redirect-#%d %s to %s", code, dst, gateway)
		}
	case 9: // router advertisement
		text = d.icmpRouters(b)
	case 11: // time exceeded
		d.require(b, 28)
		text = lookUp(icmpExceeded, code, "time exceeded-#%d")
	case 12: // parameter problem
		if text = fmt.Sprintf("parameter problem - code %d", code); code == 0 {
			text = fmt.Sprintf("parameter problem - octet %d", d.u8(b, 4))
		}
	case 13: // timestamp
		text = fmt.Sprintf("time stamp query id %d seq %d", d.u16(b, 4), d.u16(b, 6))
	case 14: // timestamp reply
		text = fmt.Sprintf("time stamp reply id %d seq %d: org %s, recv %s, xmit %s", d.u16(b, 4), d.u16(b, 6),
			timeOfDay(d.u32(b, 8)), timeOfDay(d.u32(b, 12)), timeOfDay(d.u32(b, 16)))
	case 18: // address mask reply
		text = fmt.Sprintf("address mask is 0x%08x", d.u32(b, 8))
	default:
		text = lookUp(icmpNames, kind, "type-#%d")
	}
	d.addf("ICMP %s, length %d", text, length)
	if d.o.Verbose == 0 {
		return
	}
	if !d.net.isFragment && length <= len(b) {
		if computed := checksum(b[:length], 0); computed != 0 {
			was := d.u16(b, 2)
			d.addf(" (wrong icmp cksum %x (->%x)!)", was, rightSum(was, computed))
		}
	}
	if kind == 3 || kind == 5 || kind == 11 || kind == 12 || kind == 4 {
		d.icmpQuoted(skip(b, 8))
	}
	if (kind == 3 || kind == 11 || kind == 12) && length > 136 {
		d.proto = "icmp"
		d.icmpExtensions(b, length)
	}
}

// icmpQuoted appends the packet that an error quotes, on a line of its own.
func (d *Dissector) icmpQuoted(b []byte) {
	d.add("\n\t")
	total := int(d.u16(b, 2))
	d.ipv4(limit(b, total), total)
}

// icmpUnreachable returns the text for the unreachable destination, from the quoted packet.
func (d *Dissector) icmpUnreachable(b []byte, code uint8) string {
	dst := d.ip4Addr(b, 24)
	switch code {
	case 2: // protocol
		return fmt.Sprintf("%s protocol %d unreachable", dst, d.u8(b, 17))
	case 3: // port
		proto := d.u8(b, 17)
		port := d.u16(b, 8+int(d.u8(b, 8)&15)*4+2)
		switch proto {
		case headers.TCP:
			return fmt.Sprintf("%s tcp port %d unreachable", dst, port)
		case headers.UDP:
			return fmt.Sprintf("%s udp port %d unreachable", dst, port)
		}
		return fmt.Sprintf("%s protocol %d port %d unreachable", dst, proto, port)
	case 4: // fragmentation needed
		if mtu := d.u16(b, 6); mtu != 0 {
			return fmt.Sprintf("%s unreachable - need to frag (mtu %d)", dst, mtu)
		}
		return fmt.Sprintf("%s unreachable - need to frag", dst)
	}
	if format, ok := unreachable[code]; ok {
		return fmt.Sprintf(format, dst)
	}
	return fmt.Sprintf("%s unreachable - #%d", dst, code)
}

// icmpRouters lists the routers of an advertisement with their preference.
func (d *Dissector) icmpRouters(b []byte) string {
	lifetime := int(d.u16(b, 6))
	text := "router advertisement lifetime "
	switch {
	case lifetime < 60:
		text += fmt.Sprint(lifetime)
	case lifetime < 3600:
		text += fmt.Sprintf("%d:%02d", lifetime/60, lifetime%60)
	default:
		text += fmt.Sprintf("%d:%02d:%02d", lifetime/3600, lifetime%3600/60, lifetime%60)
	}
	n := int(d.u8(b, 4))
	text += fmt.Sprintf(" %d:", n)
	if size := d.u8(b, 5); size != 2 {
		return text + fmt.Sprintf(" [size %d]", size)
	}
	for i := range n {
		text += fmt.Sprintf(" {%s %d}", d.ip4Addr(b, 8+8*i), d.u32(b, 12+8*i))
	}
	return text
}

// timeOfDay formats a number of milliseconds since midnight.
func timeOfDay(ms uint32) string {
	s := ms / 1000
	return fmt.Sprintf("%02d:%02d:%02d.%03d", s/3600, s/60%60, s%60, ms%1000)
}

// icmpExtensions appends the extensions that may follow the quoted packet (RFC 4884).
func (d *Dissector) icmpExtensions(b []byte, length int) {
	const header = 136
	n := length - header
	rest := skip(b, header)
	d.require(rest, 4)
	if d.u8(b, 5) == 0 && len(rest) >= n && checksum(rest[:n], 0) != 0 {
		return // there is no length of an extension, and the checksum does not fit one
	}
	version := rest[0] >> 4
	d.addf("\n\tICMP Multi-Part extension v%d", version)
	if version != 2 {
		d.add(" packet not supported")
		return
	}
	if len(rest) >= n {
		correct := ""
		if checksum(rest[:n], 0) != 0 {
			correct = "in"
		}
		d.addf(", checksum 0x%04x (%scorrect), length %d", d.u16(rest, 2), correct, n)
	}
	for rest, n = rest[4:], n-4; n > 4; {
		size, class, kind := int(d.u16(rest, 0)), d.u8(rest, 2), d.u8(rest, 3)
		d.addf("\n\t  %s Object (%d), Class-Type: %d, length %d",
			lookUp(map[uint8]string{1: "MPLS Stack Entry", 2: "Interface Identification"}, class, "unknown"), class, kind, size)
		if rest, n = skip(rest, 4), n-4; class == 0 || size < 4 {
			d.invalid()
			return
		}
		size -= 4
		if class == 1 && kind == 1 {
			label := d.u32(rest, 0)
			bottom := ""
			if label&0x100 != 0 {
				bottom = ", [S]"
			}
			d.addf("\n\t    label %d, tc %d%s, ttl %d", label>>12, label>>9&7, bottom, label&0xff)
		} else {
			d.hexData(limit(rest, size), "\n\t    ")
		}
		if n < size {
			d.truncated()
		}
		rest, n = skip(rest, size), n-size
	}
}
