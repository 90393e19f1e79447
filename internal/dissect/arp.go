package dissect

import (
	"bytes"
	"net"
)

var (
	arpHardware = map[uint16]string{1: "Ethernet", 6: "TokenRing", 7: "ArcNet", arpFrameRelay: "FrameRelay", 23: "Strip",
		24: "IEEE 1394", arpATM: "ATM", 32: "InfiniBand"}
	arpOperations = map[uint16]string{1: "Request", 2: "Reply", 3: "Reverse Request", 4: "Reverse Reply",
		8: "Inverse Request", 9: "Inverse Reply", 10: "NACK Reply"}
)

// Types of hardware whose addresses are not shown.
const arpFrameRelay, arpATM = 15, 19

func (d *Dissector) arp(b []byte, length int) {
	d.proto = "arp"
	d.require(b, 8)
	hardware, protocol, operation := d.u16(b, 0), d.u16(b, 2), d.u16(b, 6)
	hardwareSize, protocolSize := int(b[4]), int(b[5])
	d.require(b, 8+2*hardwareSize+2*protocolSize)
	sender := b[8:]
	target := sender[hardwareSize+protocolSize:]
	d.name("ARP, ")
	if hardware == arpATM { // its addresses are at other offsets
		d.addf("ATM, length %d", length)
		return
	}
	isIP := protocol == etherIPv4 || protocol == 0x1000 // with a trailer
	if odd := !isIP || protocolSize != 4 || hardwareSize == 0; odd || d.o.Verbose > 0 {
		d.addf("%s (len %d), %s (len %d)", lookUp(arpHardware, hardware, "Unknown Hardware (%d)"), hardwareSize,
			lookUp(etherNames, protocol, "Unknown Protocol (0x%04x)"), protocolSize)
		if d.o.Verbose == 0 {
			d.addf(", length %d", length)
			return
		}
		d.add(", ")
	}
	d.addf("%s ", lookUp(arpOperations, operation, "Unknown (%d)"))
	mac := func(host []byte) string {
		switch {
		case hardwareSize == 0:
			return "<empty>"
		case hardware == arpFrameRelay && hardwareSize != 6: // its identifiers have their own formats
			return "<frame relay>"
		}
		return net.HardwareAddr(host[:hardwareSize]).String()
	}
	ip := func(host []byte) string {
		switch {
		case !isIP:
			return "<wrong proto type>"
		case protocolSize != 4:
			return "<wrong len>"
		}
		return d.ip4Addr(host, hardwareSize).String()
	}
	switch operation {
	case 1:
		d.addf("who-has %s", ip(target))
		if bytes.Trim(target[:hardwareSize], "\x00") != nil {
			d.addf(" (%s)", mac(target))
		}
		d.addf(" tell %s", ip(sender))
	case 2:
		d.addf("%s is-at %s", ip(sender), mac(sender))
	case 3, 8:
		d.addf("who-is %s tell %s", mac(target), mac(sender))
	case 4:
		d.addf("%s at %s", mac(target), ip(target))
	case 9:
		d.addf("%s at %s", mac(sender), ip(sender))
	default:
		d.unknown(b)
		return
	}
	d.addf(", length %d", length)
}
