package dissect

import (
	"bytes"
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

var (
	arpHardware = map[layers.LinkType]string{1: "Ethernet", 6: "TokenRing", 7: "ArcNet", 15: "FrameRelay", 23: "Strip",
		24: "IEEE 1394", 19: "ATM", 32: "InfiniBand"}
	arpOperations = map[uint16]string{1: "Request", 2: "Reply", 3: "Reverse Request", 4: "Reverse Reply",
		8: "Inverse Request", 9: "Inverse Reply", 10: "NACK Reply"}
)

func (d *Dissector) arp(b []byte, length int) {
	d.proto = "arp"
	a := &d.arpMsg
	if a.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
		d.truncated()
		return
	}
	d.name("ARP, ")
	if a.AddrType == 19 { // its addresses are at other offsets
		d.addf("ATM, length %d", length)
		return
	}
	ip := (a.Protocol == layers.EthernetTypeIPv4 || a.Protocol == 0x1000)
	if odd := !ip || a.ProtAddressSize != 4 || a.HwAddressSize == 0; odd || d.o.Verbose > 0 {
		d.addf("%s (len %d), %s (len %d)", lookUp(arpHardware, a.AddrType, "Unknown Hardware (%d)"), a.HwAddressSize,
			lookUp(etherNames, uint16(a.Protocol), "Unknown Protocol (0x%04x)"), a.ProtAddressSize)
		if d.o.Verbose == 0 {
			d.addf(", length %d", length)
			return
		}
		d.add(", ")
	}
	d.addf("%s ", lookUp(arpOperations, a.Operation, "Unknown (%d)"))
	hw := func(b []byte) string {
		switch {
		case len(b) == 0:
			return "<empty>"
		case a.AddrType == 15 && len(b) != 6: // frame relay identifiers have their own formats
			return "<frame relay>"
		}
		return net.HardwareAddr(b).String()
	}
	protocol := func(b []byte) string {
		switch {
		case !ip:
			return "<wrong proto type>"
		case len(b) != 4:
			return "<wrong len>"
		}
		return d.ip4Addr(b, 0).String()
	}
	switch a.Operation {
	case 1:
		d.addf("who-has %s", protocol(a.DstProtAddress))
		if bytes.Trim(a.DstHwAddress, "\x00") != nil {
			d.addf(" (%s)", hw(a.DstHwAddress))
		}
		d.addf(" tell %s", protocol(a.SourceProtAddress))
	case 2:
		d.addf("%s is-at %s", protocol(a.SourceProtAddress), hw(a.SourceHwAddress))
	case 3, 8:
		d.addf("who-is %s tell %s", hw(a.DstHwAddress), hw(a.SourceHwAddress))
	case 4:
		d.addf("%s at %s", hw(a.DstHwAddress), protocol(a.DstProtAddress))
	case 9:
		d.addf("%s at %s", hw(a.SourceHwAddress), protocol(a.SourceProtAddress))
	default:
		d.unknown(b)
		return
	}
	d.addf(", length %d", length)
}
