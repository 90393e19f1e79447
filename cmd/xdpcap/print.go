package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"strings"
	"time"
)

// printer writes a packet as the line that tcpdump -nS prints for it, so that eyes and scripts used to tcpdump find what
// they look for. Sequence numbers are absolute, as with -S: relative ones need the state of every flow, and a sample
// of the packets rarely has a flow's SYN.
//
// Two things differ on purpose. VLAN tags are shown without -e, because at the XDP hook they are part of the packet. And
// what has no decoder here becomes a name and a length, never a hex dump: a packet is one line, with -v a few.
//
// The headers are read in place instead of by gopacket's decoders: those leave the fields of a header empty that the
// snaplen has cut or whose options are odd, and such packets are the ones worth looking at.
//
// A printer belongs to one goroutine.
type printer struct {
	w         *bufio.Writer
	verbosity int    // -1 = -q, 1 = -v, 2 = -vv
	line      []byte // the packet being printed
}

// newPrinter returns a printer that collects lines for w until flush.
func newPrinter(w io.Writer, verbosity int) *printer {
	return &printer{w: bufio.NewWriterSize(w, 64<<10), verbosity: verbosity}
}

// flush writes out the lines so far.
func (p *printer) flush() error { return p.w.Flush() }

// print adds the line of an Ethernet frame of which data was kept out of wireLen bytes. The time is printed in its local
// form. An error is that of the writer.
func (p *printer) print(t time.Time, data []byte, wireLen int) error {
	p.line = t.Local().AppendFormat(p.line[:0], "15:04:05.000000 ")
	p.ethernet(data, max(wireLen, len(data)))
	p.line = append(p.line, '\n')
	_, err := p.w.Write(p.line)
	return err
}

func (p *printer) add(s string)                 { p.line = append(p.line, s...) }
func (p *printer) addf(format string, a ...any) { p.line = fmt.Appendf(p.line, format, a...) }

// cut marks the header at which the snaplen ended the packet.
func (p *printer) cut(header string) { p.addf(" [|%s]", header) }

var be = binary.BigEndian

// EtherTypes that have a printer, or at least a name.
const (
	etherIP4    = 0x0800
	etherARP    = 0x0806
	etherVLAN   = 0x8100
	etherIP6    = 0x86dd
	etherMPLS   = 0x8847
	etherMPLSMC = 0x8848
	etherPPPoE  = 0x8864
	etherQinQ   = 0x88a8
	etherQinQ1  = 0x9100
)

var etherNames = map[uint16]string{
	etherIP4: "IPv4", etherARP: "ARP", etherIP6: "IPv6", etherMPLS: "MPLS unicast", etherMPLSMC: "MPLS multicast",
	0x8035: "Reverse ARP", 0x8809: "Slow Protocols", 0x8863: "PPPoE D", etherPPPoE: "PPPoE S", 0x888e: "EAPOL",
	0x88cc: "LLDP", 0x88e5: "MACsec", 0x88f7: "PTP", 0x8902: "CFM", 0x9000: "Loopback",
}

// ethernet prints a frame. In it and in the printers below, length is what b was on the wire, at least len(b).
func (p *printer) ethernet(b []byte, length int) {
	if len(b) < 14 {
		p.add("[|ether]")
		return
	}
	p.etherType(be.Uint16(b[12:]), b[14:], length-14, length)
}

// etherType prints what follows the type in an Ethernet header or a tag of a frame of frame bytes.
func (p *printer) etherType(t uint16, b []byte, length, frame int) {
	// A frame has room for thousands of tags; a loop cannot run out of stack.
	for t == etherVLAN || t == etherQinQ || t == etherQinQ1 {
		if len(b) < 4 {
			p.add("[|vlan]")
			return
		}
		tag := be.Uint16(b)
		p.addf("vlan %d, p %d, ", tag&0xfff, tag>>13)
		if tag&0x1000 != 0 {
			p.add("DEI, ")
		}
		t, b, length = be.Uint16(b[2:]), b[4:], length-4
	}
	switch t {
	case etherIP4:
		p.ip4(b, length, 0)
	case etherIP6:
		p.ip6(b, length, 0)
	case etherARP:
		p.arp(b, length)
	case etherMPLS, etherMPLSMC:
		p.mpls(b, length)
	case etherPPPoE:
		p.pppoe(b, length)
	default:
		if t < 1536 {
			p.addf("802.3, length %d", frame)
			return
		}
		name, ok := etherNames[t]
		if !ok {
			name = "Unknown"
		}
		p.addf("ethertype %s (0x%04x), length %d", name, t, frame)
	}
}

// mpls prints a label stack and the IP packet under it, which only its first bits tell.
func (p *printer) mpls(b []byte, length int) {
	p.add("MPLS")
	for bottom := false; !bottom; b, length = b[4:], length-4 {
		if len(b) < 4 {
			p.cut("mpls")
			return
		}
		e := be.Uint32(b)
		bottom = e&0x100 != 0
		p.addf(" (label %d, tc %d, ", e>>12, e>>9&7)
		if bottom {
			p.add("[S], ")
		}
		p.addf("ttl %d)", e&0xff)
	}
	p.add(" ")
	p.ip(b, length, 0)
}

// ip prints an IP packet of the version that its first bits tell.
func (p *printer) ip(b []byte, length, depth int) {
	switch {
	case len(b) == 0:
		p.cut("ip")
	case b[0]>>4 == 4:
		p.ip4(b, length, depth)
	case b[0]>>4 == 6:
		p.ip6(b, length, depth)
	default:
		p.addf("unknown ip %d, length %d", b[0]>>4, length)
	}
}

func (p *printer) pppoe(b []byte, length int) {
	p.add("PPPoE ")
	if len(b) < 8 {
		p.cut("pppoe")
		return
	}
	p.addf(" [ses 0x%x] ", be.Uint16(b[2:]))
	switch proto := be.Uint16(b[6:]); proto {
	case 0x0021:
		p.ip4(b[8:], length-8, 0)
	case 0x0057:
		p.ip6(b[8:], length-8, 0)
	default:
		p.addf("PPP protocol 0x%04x, length %d", proto, length-6)
	}
}

// arp prints ARP and RARP for IPv4 over Ethernet.
func (p *printer) arp(b []byte, length int) {
	p.add("ARP, ")
	if len(b) < 8 {
		p.cut("arp")
		return
	}
	if be.Uint32(b) != 1<<16|etherIP4 || b[4] != 6 || b[5] != 4 {
		p.addf("hardware #%d (len %d), protocol 0x%04x (len %d), operation %d, length %d",
			be.Uint16(b), b[4], be.Uint16(b[2:]), b[5], be.Uint16(b[6:]), length)
		return
	}
	if p.verbosity > 0 {
		p.add("Ethernet (len 6), IPv4 (len 4), ")
	}
	if len(b) < 28 {
		p.cut("arp")
		return
	}
	sender, target := net.HardwareAddr(b[8:14]), net.HardwareAddr(b[18:24])
	senderIP, targetIP := addr4(b[14:]), addr4(b[24:])
	switch op := be.Uint16(b[6:]); op {
	case 1:
		p.addf("Request who-has %s", targetIP)
		if string(target) != "\x00\x00\x00\x00\x00\x00" {
			p.addf(" (%s)", target)
		}
		p.addf(" tell %s", senderIP)
	case 2:
		p.addf("Reply %s is-at %s", senderIP, sender)
	case 3:
		p.addf("Reverse Request who-is %s tell %s", target, sender)
	case 4:
		p.addf("Reverse Reply %s at %s", target, targetIP)
	default:
		p.addf("Unknown (%d)", op)
	}
	p.addf(", length %d", length)
}

func addr4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }
func addr6(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)) }

// names lists the names of the bits set in v, from bit 0, or else says none.
func names(none string, v uint32, list []string) string {
	var set []string
	for ; v != 0; v &= v - 1 {
		if i := bits.TrailingZeros32(v); i < len(list) {
			set = append(set, list[i])
		}
	}
	if set == nil {
		return none
	}
	return strings.Join(set, ", ")
}
