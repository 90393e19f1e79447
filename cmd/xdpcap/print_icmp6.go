package main

import (
	"fmt"
	"math/bits"
	"net"
)

var icmp6Names = map[uint8]string{
	1: "destination unreachable", 2: "packet too big", 3: "time exceeded in-transit", 4: "parameter problem",
	128: "echo request", 129: "echo reply", 130: "multicast listener query", 131: "multicast listener report",
	132: "multicast listener done", 133: "router solicitation", 134: "router advertisement",
	135: "neighbor solicitation", 136: "neighbor advertisement", 137: "redirect",
	143: "multicast listener report v2",
}

var icmp6Unreachable = []string{
	"unreachable route %s", " unreachable prohibited %s", "beyond scope %s, source address %s", "unreachable address %s",
	"unreachable port",
}

func (p *printer) icmp6(n *network, b []byte, length int) {
	if len(b) < 4 {
		p.cut("icmp6")
		return
	}
	if p.verbosity > 0 && !n.partial && len(b) >= length {
		if ok, want := n.checksum(b[:length], 2); ok {
			p.add("[icmp6 sum ok] ")
		} else {
			p.addf("[bad icmp6 cksum 0x%04x -> 0x%04x!] ", be.Uint16(b[2:]), want)
		}
	}
	typ := b[0]
	p.add("ICMP6, ")
	if name, ok := icmp6Names[typ]; ok {
		p.add(name)
	} else {
		p.addf("unknown icmp6 type (%d)", typ)
	}
	// With -v the length of a neighbor discovery message stands before its options, and other known ones have none.
	discovery := typ >= 133 && typ <= 137
	if p.verbosity > 0 && discovery {
		p.addf(", length %d", length)
	}
	if !p.icmp6Body(b, length) {
		p.cut("icmp6")
		return
	}
	if _, known := icmp6Names[typ]; !known || p.verbosity < 1 {
		p.addf(", length %d", length)
	}
}

// icmp6Body prints what the type has. It is false where the message is cut.
func (p *printer) icmp6Body(b []byte, length int) bool {
	need := map[uint8]int{1: 48, 2: 8, 3: 48, 4: 48, 128: 8, 129: 8, 134: 16, 135: 24, 136: 24, 137: 40, 143: 8}[b[0]]
	if len(b) < need {
		return false
	}
	switch typ, code := b[0], b[1]; typ {
	case 1:
		src, dst := addr6(b[16:]), addr6(b[32:])
		p.add(", ")
		switch {
		case code == 2:
			p.addf(icmp6Unreachable[2], dst, src)
		case code == 4:
			p.add(icmp6Unreachable[4])
			if len(b) < 52 {
				return false
			}
			switch proto, port := b[14], be.Uint16(b[50:]); proto {
			case protoTCP:
				p.addf(", %s tcp port %d", dst, port)
			case protoUDP:
				p.addf(", %s udp port %d", dst, port)
			default:
				p.addf(", %s protocol %d", dst, proto)
			}
		case int(code) < len(icmp6Unreachable):
			p.addf(icmp6Unreachable[code], dst)
		default:
			p.addf("unknown unreach code (%d)", code)
		}
	case 2:
		p.addf(", mtu %d", be.Uint32(b[4:]))
	case 3:
		switch code {
		case 0:
			p.addf(" for %s", addr6(b[32:]))
		case 1:
			p.add(" (reassembly)")
		default:
			p.addf(", unknown code (%d)", code)
		}
	case 4:
		what := []string{"erroneous", "next header", "option", "incomplete header chain"}
		if int(code) < len(what) {
			p.addf(", %s - octet %d", what[code], be.Uint32(b[4:]))
		} else {
			p.addf(", code-#%d", code)
		}
	case 128, 129:
		p.addf(", id %d, seq %d", be.Uint16(b[4:]), be.Uint16(b[6:]))
	case 143:
		p.addf(", %d group record(s)", be.Uint16(b[6:]))
	case 133:
		return p.discoveryOptions(b, 8, length)
	case 134:
		return p.routerAdvertisement(b, length)
	case 135:
		p.addf(", who has %s", addr6(b[8:]))
		return p.discoveryOptions(b, 24, length)
	case 136:
		p.addf(", tgt is %s", addr6(b[8:]))
		if p.verbosity > 0 {
			p.addf(", Flags [%s]", msbNames(b[4], []string{"router", "solicited", "override"}))
		}
		return p.discoveryOptions(b, 24, length)
	case 137:
		p.addf(", %s to %s", addr6(b[24:]), addr6(b[8:]))
		return p.discoveryOptions(b, 40, length)
	}
	return true
}

func (p *printer) routerAdvertisement(b []byte, length int) bool {
	if p.verbosity > 0 {
		pref := [4]string{"medium", "high", "*rsv*", "low"}[b[5]>>3&3]
		p.addf("\n\thop limit %d, Flags [%s], pref %s, router lifetime %ds, reachable time %dms, retrans timer %dms",
			b[4], msbNames(b[5], []string{"managed", "other stateful"}), pref, be.Uint16(b[6:]), be.Uint32(b[8:]),
			be.Uint32(b[12:]))
	}
	return p.discoveryOptions(b, 16, length)
}

var discoveryNames = map[uint8]string{
	1: "source link-address", 2: "destination link-address", 3: "prefix info", 4: "redirected header", 5: "mtu",
	25: "rdnss", 31: "dnssl",
}

// discoveryOptions prints the options of a neighbor discovery message, which begin at offset at, each on a line of its
// own.
func (p *printer) discoveryOptions(b []byte, at, length int) bool {
	if p.verbosity < 1 {
		return true
	}
	b = b[min(at, len(b)):]
	for at < length {
		if len(b) < 2 {
			return false
		}
		size := int(b[1]) * 8
		if size == 0 || size > len(b) {
			return false
		}
		name, ok := discoveryNames[b[0]]
		if !ok {
			name = "unknown"
		}
		p.addf("\n\t  %s option (%d), length %d (%d): ", name, b[0], size, b[1])
		switch {
		case b[0] == 1 || b[0] == 2:
			p.add(net.HardwareAddr(b[2:size]).String())
		case b[0] == 3 && size == 32:
			p.addf("%s/%d, Flags [%s], valid time %s, pref. time %s", addr6(b[16:]), b[2],
				msbNames(b[3], []string{"onlink", "auto"}), lifetime(be.Uint32(b[4:])), lifetime(be.Uint32(b[8:])))
		case b[0] == 5 && size == 8:
			p.addf(" %d", be.Uint32(b[4:]))
		}
		b, at = b[size:], at+size
	}
	return true
}

func lifetime(seconds uint32) string {
	if seconds == 1<<32-1 {
		return "infinity"
	}
	return fmt.Sprintf("%ds", seconds)
}

// msbNames lists the names of the bits set in v, from the most significant one.
func msbNames(v uint8, list []string) string {
	return names("none", uint32(bits.Reverse8(v)), list)
}
