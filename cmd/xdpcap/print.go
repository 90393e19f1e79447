package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// printer writes a packet as the line that tcpdump -nS prints for it, so that eyes and scripts used to tcpdump find what
// they look for. Sequence numbers are absolute, as with -S: relative ones need the state of every flow, and a sample
// of the packets rarely has a flow's SYN.
//
// gopacket decodes, this formats what it found, as far as TCP, UDP and ICMP. These differ from tcpdump on purpose: VLAN tags
// are shown without -e, because at the XDP hook they are part of the packet; what has no format here becomes a number and a
// length, never a hex dump; a header that gopacket gives up on becomes its mark, like [|tcp], also where tcpdump shows some
// of its fields; and -v adds the fields of the IP header alone.
//
// A printer belongs to one goroutine.
type printer struct {
	w         *bufio.Writer
	verbosity int    // -1 = -q, from 1 on -v
	line      []byte // the packet being printed

	rest      []gopacket.Layer // its layers that are not printed yet
	want      string           // the header that comes next, by its mark; "" ends the line
	truncated bool             // bytes of the packet are missing
	frame     int              // bytes of the frame on the wire
	length    int              // bytes of them from the next header on
	net       network          // the last IP header
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
	p.truncated = wireLen > len(data) || len(data) < 14
	p.decode(layers.LayerTypeEthernet, data)
	p.length, p.net = max(wireLen, len(data)), network{named: true}
	for want := "ether"; want != ""; want = p.want {
		p.want = ""
		if !p.layer() {
			p.mark(want)
			break
		}
	}
	p.line = append(p.line, '\n')
	_, err := p.w.Write(p.line)
	return err
}

// decode makes the layers of data the ones to print. They are decoded from a copy: data is memory of the ring, mapped for
// reading only, where a store would end the program, and gopacket runs every decoder it has without a promise not to.
func (p *printer) decode(first gopacket.LayerType, data []byte) {
	packet := gopacket.NewPacket(data, first, gopacket.Default)
	p.rest, p.truncated = packet.Layers(), p.truncated || packet.Metadata().Truncated
}

func (p *printer) add(s string)                 { p.line = append(p.line, s...) }
func (p *printer) addf(format string, a ...any) { p.line = fmt.Appendf(p.line, format, a...) }

// mark stands for a header that could not be decoded: tcpdump's [|tcp] where bytes of the packet are missing, or else, for
// one that is wrong or unknown, [odd tcp].
func (p *printer) mark(header string) {
	p.hosts()
	why := "odd "
	if p.truncated {
		why = "|"
	}
	p.line = append(bytes.TrimRight(p.line, " "), " ["+why+header+"]"...)
}

// layer prints the next layer and sets what comes after it. It is false for one that gopacket could not decode: that is a
// layer less, a DecodeFailure, or a layer with fields left empty.
func (p *printer) layer() bool {
	if len(p.rest) == 0 {
		return false
	}
	l := p.rest[0]
	p.rest = p.rest[1:]
	switch l := l.(type) {
	case *layers.Ethernet:
		p.frame = p.length
		p.etherType(l.EthernetType, p.length-14)
	case *layers.Dot1Q:
		p.addf("vlan %d, p %d, ", l.VLANIdentifier, l.Priority)
		if l.DropEligible {
			p.add("DEI, ")
		}
		p.etherType(l.Type, p.length-4)
	case *layers.MPLS:
		p.addf("MPLS (label %d, tc %d, ttl %d) ", l.Label, l.TrafficClass, l.TTL)
		p.length, p.want = p.length-4, "mpls"
	case *layers.PPPoE:
		p.addf("PPPoE  [ses 0x%x] ", l.SessionId)
		p.length, p.want = int(l.Length), "ppp"
	case *layers.PPP:
		p.length, p.want = p.length-len(l.Contents), "ppp"
	case *layers.ARP:
		return p.arp(l)
	case *layers.IPv4:
		return p.ip4(l)
	case *layers.IPv6:
		return p.ip6(l)
	case *layers.IPv6HopByHop:
		return p.ip6Extension("HBH ", l.Contents, l.NextHeader)
	case *layers.IPv6Destination:
		return p.ip6Extension("DSTOPT ", l.Contents, l.NextHeader)
	case *layers.IPv6Routing:
		return p.ip6Extension(fmt.Sprintf("RT6 (type=%d, segleft=%d) ", l.RoutingType, l.SegmentsLeft), l.Contents, l.NextHeader)
	case *layers.IPv6Fragment:
		p.ip6Fragment(l)
	case *layers.GRE:
		p.addf("GREv%d, length %d: ", l.Version, p.length)
		p.frame = p.length - len(l.Contents)
		p.etherType(l.Protocol, p.frame)
	case *layers.TCP:
		return p.tcp(l)
	case *layers.UDP:
		return p.udp(l)
	case *layers.ICMPv4:
		return p.icmp(l)
	case *layers.ICMPv6:
		return p.icmp6(l)
	default:
		return p.icmp6Message(l)
	}
	return true
}

var etherMarks = map[layers.EthernetType]string{
	layers.EthernetTypeIPv4: "ip", layers.EthernetTypeIPv6: "ip6", layers.EthernetTypeARP: "arp",
	layers.EthernetTypeDot1Q: "vlan", layers.EthernetTypeQinQ: "vlan", layers.EthernetTypePPPoESession: "pppoe",
	layers.EthernetTypeMPLSUnicast: "mpls", layers.EthernetTypeMPLSMulticast: "mpls",
	layers.EthernetTypeTransparentEthernetBridging: "ether",
}

// etherType goes on to length bytes of type t, or ends the line with the type.
func (p *printer) etherType(t layers.EthernetType, length int) {
	p.length, p.want = length, etherMarks[t]
	if t < 0x600 {
		p.addf("802.3, length %d", p.frame)
	} else if p.want == "" {
		p.addf("ethertype 0x%04x, length %d", uint16(t), p.frame)
	}
}

func (p *printer) arp(a *layers.ARP) bool {
	if a.HwAddressSize != 6 || a.ProtAddressSize != 4 {
		return false
	}
	sender, target := net.HardwareAddr(a.SourceHwAddress), net.HardwareAddr(a.DstHwAddress)
	switch a.Operation {
	case layers.ARPRequest:
		p.addf("ARP, Request who-has %s", addr(a.DstProtAddress))
		if !bytes.Equal(target, make([]byte, 6)) {
			p.addf(" (%s)", target)
		}
		p.addf(" tell %s", addr(a.SourceProtAddress))
	case layers.ARPReply:
		p.addf("ARP, Reply %s is-at %s", addr(a.SourceProtAddress), sender)
	default:
		p.addf("ARP, Unknown (%d)", a.Operation)
	}
	p.addf(", length %d", p.length)
	return true
}

// addr is an address as tcpdump writes it: net.IP would print ::ffff:10.0.0.1 without its prefix.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
