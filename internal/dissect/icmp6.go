package dissect

import (
	"fmt"
	"net"

	"github.com/xdpcap/xdpcap/internal/headers"
)

var (
	icmp6Names = map[uint8]string{1: "destination unreachable", 2: "packet too big", 3: "time exceeded in-transit",
		4: "parameter problem", 128: "echo request", 129: "echo reply", 130: "multicast listener query",
		131: "multicast listener report", 132: "multicast listener done", 133: "router solicitation",
		134: "router advertisement", 135: "neighbor solicitation", 136: "neighbor advertisement", 137: "redirect",
		138: "router renumbering", 139: "who-are-you request", 140: "who-are-you reply",
		141: "inverse neighbor solicitation", 142: "inverse neighbor advertisement", 143: "multicast listener report v2",
		144: "ha discovery request", 145: "ha discovery reply", 146: "mobile router solicitation",
		147: "mobile router advertisement", 155: "RPL", 200: "mtrace response", 201: "mtrace message"}
	icmp6Unreachable = map[uint8]string{0: "unreachable route", 1: " unreachable prohibited", 2: "beyond scope",
		3: "unreachable address", 4: "unreachable port"}
	icmp6Problems = map[uint8]string{0: "erroneous", 1: "next header", 2: "option", 3: "incomplete header chain"}
)

func (d *Dissector) icmp6(b []byte, length int) {
	d.proto = "icmp6"
	if length == 0 {
		d.add("ICMP6, length 0")
		d.invalid()
		return
	}
	verbose := d.o.Verbose > 0
	if verbose && !d.net.isFragment && length <= len(b) {
		if was, computed := d.u16(b, 2), checksum(b[:length], d.net.pseudoHeader(length, headers.ICMPv6)); computed != 0 {
			d.addf("[bad icmp6 cksum 0x%04x -> 0x%04x!] ", was, rightSum(was, computed))
		} else {
			d.add("[icmp6 sum ok] ")
		}
	}
	kind := d.u8(b, 0)
	d.addf("ICMP6, %s", lookUp(icmp6Names, kind, "unknown icmp6 type (%d)"))
	if verbose && (kind >= 133 && kind <= 137 || kind == 145 || kind == 147) {
		d.addf(", length %d", length)
	}
	if d.icmp6Message(kind, d.u8(b, 1), b, length) && !verbose {
		d.number(", length ", uint64(length))
	}
}

// icmp6Message appends the part of a message after its type. It returns false if the length does
// not follow.
func (d *Dissector) icmp6Message(kind, code uint8, b []byte, length int) bool {
	options := func(at int) {
		if d.o.Verbose > 0 {
			d.neighborOptions(skip(b, at), length-at)
		}
	}
	switch kind {
	case 1:
		return d.icmp6Unreachable(code, b, length)
	case 2: // too big
		d.addf(", mtu %d", d.u32(b, 4))
	case 3: // time exceeded
		switch code {
		case 0:
			d.address(" for ", d.ip6Addr(b, 32))
		case 1:
			d.add(" (reassembly)")
		default:
			d.addf(", unknown code (%d)", code)
		}
	case 4: // parameter problem
		d.require(b, 48)
		if what, ok := icmp6Problems[code]; ok {
			d.addf(", %s - octet %d", what, d.u32(b, 4))
		} else {
			d.addf(", code-#%d", code)
		}
	case 128, 129: // echo
		d.addf(", id %d, seq %d", d.u16(b, 4), d.u16(b, 6))
	case 130: // listener query
		switch {
		case length == 24:
			d.listener(b)
		case length >= 28:
			d.add(" v2")
			d.listenerQuery(b, length)
		default:
			d.addf(" unknown-version (len %d) ", length)
		}
	case 131, 132: // listener report, done
		d.listener(b)
	case 133: // router solicitation
		options(8)
	case 134: // router advertisement
		if d.o.Verbose > 0 {
			flags := d.u8(b, 5)
			d.addf("\n\thop limit %d, Flags [%s], pref %s, router lifetime %ds, reachable time %dms, retrans timer %dms",
				d.u8(b, 4), bitNames(uint32(flags), routerFlags, ", ", "none"), routerPreference(flags), d.u16(b, 6), d.u32(b, 8), d.u32(b, 12))
		}
		options(16)
	case 135: // neighbor solicitation
		d.address(", who has ", d.ip6Addr(b, 8))
		options(24)
	case 136: // neighbor advertisement
		d.address(", tgt is ", d.ip6Addr(b, 8))
		if d.o.Verbose > 0 {
			d.addf(", Flags [%s]", bitNames(d.u32(b, 4), neighborFlags, ", ", "none"))
		}
		options(24)
	case 137: // redirect
		d.address(", ", d.ip6Addr(b, 24))
		d.address(" to ", d.ip6Addr(b, 8))
		options(40)
	case 138, 139, 140, 155: // tcpdump prints more of these
	case 141, 142: // inverse discovery
	case 143: // listener report v2
		if length < 8 {
			d.addf(" [invalid len %d]", length)
		} else {
			d.groupRecords(b, length, 16, " [v2-report-#%d]")
		}
	case 144, 146: // of mobile IP
		d.addf(", id 0x%04x", d.u16(b, 4))
	case 145, 147: // likewise
		if d.o.Verbose > 0 {
			d.addf(", id 0x%04x", d.u16(b, 4))
		}
	default:
		d.addf(", length %d", length)
		if d.o.Verbose <= 1 {
			d.hexData(limit(b, length), "\n\t")
		}
		return false
	}
	return true
}

func (d *Dissector) icmp6Unreachable(code uint8, b []byte, length int) bool {
	d.addf(", %s", lookUp(icmp6Unreachable, code, "unknown unreach code (%d)"))
	switch code {
	case 0, 1, 3:
		d.addf(" %s", d.ip6Addr(b, 32))
	case 2:
		d.addf(" %s, source address %s", d.ip6Addr(b, 32), d.ip6Addr(b, 16))
	case 4:
		proto, port := d.quotedPort(skip(b, 8))
		d.addf(", %s %s port %d", d.ip6Addr(b, 32), proto, port)
	default:
		if d.o.Verbose <= 1 {
			d.hexData(limit(b, length), "\n\t")
			return false
		}
	}
	return true
}

// quotedPort returns the destination port in a packet that an error quotes.
func (d *Dissector) quotedPort(b []byte) (proto string, port uint16) {
	d.require(b, 40)
	next := b[6]
	for b = b[40:]; ; {
		switch next {
		case headers.TCP:
			return "tcp", d.u16(b, 2)
		case headers.UDP:
			return "udp", d.u16(b, 2)
		case protoHopByHop, protoDestination, protoRouting:
			next, b = d.u8(b, 0), skip(b, (int(d.u8(b, 1))+1)*8)
		case protoFragment:
			if offset := d.u16(b, 2) &^ 7; offset != 0 {
				d.truncated()
			}
			next, b = b[0], skip(b, 8)
		case protoAH:
			next, b = d.u8(b, 0), skip(b, (int(d.u8(b, 1))+2)*4)
		default:
			d.truncated()
		}
	}
}

// listener appends a message about one multicast group.
func (d *Dissector) listener(b []byte) {
	if len(b) >= 24 {
		d.addf("max resp delay: %d addr: %s", d.u16(b, 4), d.ip6Addr(b, 8))
	}
}

func (d *Dissector) listenerQuery(b []byte, length int) {
	if d.o.Verbose > 0 {
		delay := int(d.u16(b, 4))
		if delay >= 32768 {
			delay = (delay&0xfff | 0x1000) << (delay>>12&7 + 3)
		}
		d.addf(" [max resp delay=%d]", delay)
	}
	d.address(" [gaddr ", d.ip6Addr(b, 8))
	if d.o.Verbose > 0 {
		flags, interval := d.u8(b, 24), int(d.u8(b, 25))
		if flags&8 != 0 {
			d.add(" sflag")
		}
		if robustness := flags & 7; robustness != 0 {
			d.addf(" robustness=%d", robustness)
		}
		if interval >= 128 {
			interval = (interval&15 | 16) << (interval>>4&7 + 3)
		}
		d.addf(" qqi=%d", interval)
	}
	if n := int(d.u16(b, 26)); n > 0 {
		if length < 28+16*n {
			d.add(" [invalid number of sources]")
		} else {
			d.groupSources(b, 28, n, 16)
		}
	}
	d.add("]")
}

var (
	routerFlags     = []bit{{0x80, "managed"}, {0x40, "other stateful"}, {0x20, "home agent"}, {0x02, "ipv6 only"}}
	neighborFlags   = []bit{{0x80000000, "router"}, {0x40000000, "solicited"}, {0x20000000, "override"}}
	prefixFlags     = []bit{{0x80, "onlink"}, {0x40, "auto"}, {0x20, "router"}}
	neighborOptions = map[uint8]string{1: "source link-address", 2: "destination link-address", 3: "prefix info",
		4: "redirected header", 5: "mtu", 7: "advertisement interval", 8: "homeagent information", 24: "route info",
		25: "rdnss", 31: "dnssl"}
)

func routerPreference(flags uint8) string {
	return [4]string{"medium", "high", "rsv", "low"}[flags>>3&3]
}

// lifetime formats a number of seconds, of which the largest means forever.
func lifetime(seconds uint32) string {
	if seconds == 0xffffffff {
		return "infinity"
	}
	return fmt.Sprintf("%ds", seconds)
}

// neighborOptions appends the options of neighbor discovery, a line each.
func (d *Dissector) neighborOptions(b []byte, length int) {
	for all := b; length > 0; {
		kind, size := d.u8(b, 0), int(d.u8(b, 1))*8
		if size == 0 || size > len(b) {
			d.truncated()
		}
		d.addf("\n\t  %s option (%d), length %d (%d): ", lookUp(neighborOptions, kind, "unknown"), kind, size, size/8)
		d.neighborOption(kind, b[:size], all)
		if d.o.Verbose > 1 {
			d.hexData(b[2:size], "\n\t    ")
		}
		b, length = b[size:], length-size
	}
}

// neighborOption appends the option b; all are the options from the first one on.
func (d *Dissector) neighborOption(kind uint8, b, all []byte) {
	switch size := len(b); kind {
	case 1, 2: // link-layer address
		d.add(net.HardwareAddr(b[2:]).String())
	case 3: // prefix
		bad := ""
		if size != 32 {
			bad = "badlen"
		}
		d.addf("%s/%d%s, Flags [%s], valid time %s", d.ip6Addr(b, 16), d.u8(b, 2), bad,
			bitNames(uint32(d.u8(b, 3)), prefixFlags, ", ", "none"), lifetime(d.u32(b, 4)))
		d.addf(", pref. time %s", lifetime(d.u32(b, 8)))
	case 4: // redirected header
		d.hexData(limit(all, size), "\n\t    ")
	case 5: // MTU
		bad := ""
		if size != 8 {
			bad = "bad option length"
		}
		d.addf(" %d%s", d.u32(b, 4), bad)
	case 7: // advertisement interval
		d.addf(" %dms", d.u32(b, 4))
	case 8: // home agent
		d.addf(" preference %d, lifetime %d", d.u16(b, 4), d.u16(b, 6))
	case 24: // route
		if size > 24 {
			d.truncated()
		}
		var prefix [16]byte
		copy(prefix[:], b[8:])
		d.addf(" %s/%d, pref=%s, lifetime=%s", addr(prefix[:]), d.u8(b, 2), routerPreference(d.u8(b, 3)), lifetime(d.u32(b, 4)))
	case 25: // DNS servers
		d.addf(" lifetime %ds,", d.u32(b, 4))
		for at := 8; at+16 <= size; at += 16 {
			d.address(" addr: ", d.ip6Addr(b, at))
		}
	case 31: // DNS search list
		d.addf(" lifetime %ds, domain(s):", d.u32(b, 4))
		for names, at := (&message{b: b}), 8; at < size && b[at] != 0; {
			d.add(" ")
			at = d.requireName(names, at)
		}
	default:
		if d.o.Verbose <= 1 {
			d.hexData(b[2:], "\n\t  ")
		}
	}
}
