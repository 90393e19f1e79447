package dissect

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

var greFlags = []bit{{0x8000, "checksum present"}, {0x4000, "routing present"}, {0x2000, "key present"},
	{0x1000, "sequence# present"}, {0x0800, "source routing present"}, {0x0080, "ack present"}}

func (d *Dissector) greHeader(b []byte, length int) {
	d.proto = "gre"
	if length < 2 || !d.has(b, 2) {
		d.truncated()
		return
	}
	flags := d.u16(b, 0)
	version := flags & 7
	d.addf("GREv%d", version)
	if version > 1 {
		d.add(" ERROR: unknown-version")
		return
	}
	if d.o.Verbose > 0 {
		d.addf(", Flags [%s]", bitNames(uint32(flags), greFlags, ", ", "none"))
	}
	g := &d.gre
	if g.DecodeFromBytes(limit(b, length), gopacket.NilDecodeFeedback) != nil {
		d.truncated()
		return
	}
	if version == 1 {
		d.enhancedGRE(g, length)
		return
	}
	if g.ChecksumPresent || g.RoutingPresent {
		if d.o.Verbose > 0 {
			d.addf(", sum 0x%x", g.Checksum)
		}
		d.addf(", off 0x%x", g.Offset)
	}
	if g.KeyPresent {
		d.addf(", key=0x%x", g.Key)
	}
	if g.SeqPresent {
		d.addf(", seq %d", g.Seq)
	}
	d.greProtocol(g.Protocol)
	d.addf(", length %d", length)
	d.newLine(": ")
	b, length = g.Payload, length-len(g.Contents)
	switch g.Protocol {
	case layers.EthernetTypeIPv4:
		d.ipv4(b, length)
	case layers.EthernetTypeIPv6:
		d.ipv6(b, length)
	case layers.EthernetTypeMPLSUnicast:
		d.mpls(b, length)
	case layers.EthernetTypeTransparentEthernetBridging:
		d.ether(b, length)
	case 0x88be: // tcpdump shows only the number
		d.add("gre-proto-0x88be, ERSPAN")
		d.erspan(b, length, g.SeqPresent)
	case 0x8137, 0x809b, 0x00fe: // tcpdump prints more of these
		d.add(etherNames[uint16(g.Protocol)])
	default:
		d.addf("gre-proto-0x%x", uint16(g.Protocol))
	}
}

func (d *Dissector) greProtocol(t layers.EthernetType) {
	if d.o.LinkLevel {
		d.addf(", proto %s (0x%04x)", lookUp(etherNames, uint16(t), "unknown"), uint16(t))
	}
}

// enhancedGRE appends version 1, which carries PPP (RFC 2637).
func (d *Dissector) enhancedGRE(g *layers.GRE, length int) {
	if g.KeyPresent {
		d.addf(", call %d", g.Key&0xffff)
	}
	if g.SeqPresent {
		d.addf(", seq %d", g.Seq)
	}
	if g.AckPresent {
		d.addf(", ack %d", g.Ack)
	}
	if !g.SeqPresent {
		d.add(", no-payload")
	}
	d.greProtocol(g.Protocol)
	d.addf(", length %d", length)
	if !g.SeqPresent {
		return
	}
	b, rest := g.Payload, length-len(g.Contents)
	d.newLine(": ")
	if g.Protocol == 0x880b {
		d.ppp(b, rest)
	} else {
		d.addf("gre-proto-0x%x", uint16(g.Protocol))
	}
}

// erspan appends a mirrored frame: of type I, without a header, or of type II.
func (d *Dissector) erspan(b []byte, length int, sequence bool) {
	if sequence {
		d.proto = "erspan"
		if !d.has(b, 8) {
			return
		}
		d.addf(" session %d, vlan %d, index %d: ", d.u16(b, 2)&0x3ff, d.u16(b, 0)&0xfff, d.u32(b, 4)&0xfffff)
		b, length = b[8:], length-8
	} else {
		d.add(": ")
	}
	d.ether(b, length)
}

func (d *Dissector) vxlanHeader(b []byte, length int) {
	d.proto = "vxlan"
	d.add("VXLAN")
	if length < 8 {
		d.invalid()
		return
	}
	flags := d.u8(b, 0)
	d.addf(", flags [%s] (0x%02x), ", bitNames(uint32(flags), []bit{{8, "I"}}, "", "invalid"), flags)
	if d.vxlan.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
		d.truncated()
		return
	}
	d.addf("vni %d\n", d.vxlan.VNI)
	d.ether(b[8:], length-8)
}

var geneveFlags = []bit{{0x80, "O"}, {0x40, "C"}, {0x20, "R1"}, {0x10, "R2"}, {8, "R3"}, {4, "R4"}, {2, "R5"}, {1, "R6"}}

func (d *Dissector) geneve(b []byte, length int) {
	d.proto = "geneve"
	d.add("Geneve")
	if length < 8 {
		d.addf(" [length %d < 8]", length)
		d.invalid()
		return
	}
	if !d.has(b, 8) {
		return
	}
	if version := b[0] >> 6; version != 0 {
		d.addf(" ERROR: unknown-version %d", version)
		return
	}
	typ := layers.EthernetType(d.u16(b, 2))
	d.addf(", Flags [%s], vni 0x%x", bitNames(uint32(b[1]), geneveFlags, "", "none"), d.u24(b, 4))
	if b[7] != 0 {
		d.addf(", rsvd 0x%x", b[7])
	}
	d.greProtocol(typ)
	options := int(b[0]&0x3f) * 4
	b, length = b[8:], length-8
	if length < options {
		d.addf(" truncated-geneve - %d bytes missing", options-length)
		return
	}
	if !d.has(b, options) {
		return
	}
	if options > 0 {
		d.add(", options [")
		if d.o.Verbose > 0 {
			d.geneveOptions(b[:options])
		} else {
			d.addf("%d bytes", options)
		}
		d.add("]")
	}
	b, length = b[options:], length-options
	d.newLine(": ")
	switch {
	case d.payload(typ, b, length):
	case typ == layers.EthernetTypeTransparentEthernetBridging:
		d.ether(b, length)
	default:
		d.addf("geneve-proto-0x%x", uint16(typ))
	}
}

func (d *Dissector) geneveOptions(b []byte) {
	for separator := ""; len(b) > 0 && !d.ended; separator = ", " {
		class, kind := d.u16(b, 0), d.u8(b, 2)
		size := 4 + int(d.u8(b, 3)&0x1f)*4
		critical := ""
		if kind&0x80 != 0 {
			critical = "(C)"
		}
		d.addf("%sclass %s (0x%x) type 0x%x%s len %d", separator, geneveClass(class), class, kind, critical, size)
		if size > len(b) {
			d.add(" [bad length]")
			return
		}
		if d.o.Verbose > 1 && size > 4 {
			d.add(" data")
			for at := 4; at < size; at += 4 {
				d.addf(" %08x", d.u32(b, at))
			}
		}
		b = b[size:]
	}
}

func geneveClass(class uint16) string {
	switch {
	case class <= 0xff:
		return "Standard"
	case class >= 0xfff0:
		return "Experimental"
	}
	return lookUp(map[uint16]string{0x100: "Linux", 0x101: "Open vSwitch", 0x102: "Open Virtual Networking (OVN)",
		0x103: "In-band Network Telemetry (INT)", 0x104: "VMware"}, class, "Unknown")
}
