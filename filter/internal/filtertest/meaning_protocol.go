package filtertest

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// protocolNumbers are the tests for a protocol by its name alone: the numbers in the header of
// another protocol, one of which the packet must have. ProtoNone stands for IPv4 and IPv6.
var protocolNumbers = map[syntax.Proto]struct {
	in      syntax.Proto
	numbers []uint32
}{
	syntax.ProtoIP:      {syntax.ProtoLink, []uint32{0x800}},
	syntax.ProtoARP:     {syntax.ProtoLink, []uint32{0x806}},
	syntax.ProtoRARP:    {syntax.ProtoLink, []uint32{0x8035}},
	syntax.ProtoIP6:     {syntax.ProtoLink, []uint32{0x86dd}},
	syntax.ProtoATALK:   {syntax.ProtoLink, []uint32{0x809b}},
	syntax.ProtoAARP:    {syntax.ProtoLink, []uint32{0x80f3}},
	syntax.ProtoDECNET:  {syntax.ProtoLink, []uint32{0x6003}},
	syntax.ProtoSCA:     {syntax.ProtoLink, []uint32{0x6007}},
	syntax.ProtoLAT:     {syntax.ProtoLink, []uint32{0x6004}},
	syntax.ProtoMOPDL:   {syntax.ProtoLink, []uint32{0x6001}},
	syntax.ProtoMOPRC:   {syntax.ProtoLink, []uint32{0x6002}},
	syntax.ProtoISO:     {syntax.ProtoLink, []uint32{0xfe}},
	syntax.ProtoSTP:     {syntax.ProtoLink, []uint32{0x42}},
	syntax.ProtoIPX:     {syntax.ProtoLink, []uint32{0xe0}},
	syntax.ProtoNETBEUI: {syntax.ProtoLink, []uint32{0xf0}},
	syntax.ProtoSCTP:    {syntax.ProtoNone, []uint32{132}},
	syntax.ProtoTCP:     {syntax.ProtoNone, []uint32{6}},
	syntax.ProtoUDP:     {syntax.ProtoNone, []uint32{17}},
	syntax.ProtoPIM:     {syntax.ProtoNone, []uint32{103}},
	syntax.ProtoAH:      {syntax.ProtoNone, []uint32{51}},
	syntax.ProtoESP:     {syntax.ProtoNone, []uint32{50}},
	syntax.ProtoICMP:    {syntax.ProtoIP, []uint32{1}},
	syntax.ProtoIGMP:    {syntax.ProtoIP, []uint32{2}},
	syntax.ProtoIGRP:    {syntax.ProtoIP, []uint32{9}},
	syntax.ProtoVRRP:    {syntax.ProtoIP, []uint32{112}},
	syntax.ProtoCARP:    {syntax.ProtoIP, []uint32{112}},
	syntax.ProtoICMP6:   {syntax.ProtoIP6, []uint32{58}},
	syntax.ProtoESIS:    {syntax.ProtoISO, []uint32{130}},
	syntax.ProtoISIS:    {syntax.ProtoISO, []uint32{131}},
	syntax.ProtoCLNP:    {syntax.ProtoISO, []uint32{129}},
	syntax.ProtoL1:      {syntax.ProtoISIS, []uint32{26, 24, 18, 15, 17}},
	syntax.ProtoL2:      {syntax.ProtoISIS, []uint32{27, 25, 20, 16, 17}},
	syntax.ProtoIIH:     {syntax.ProtoISIS, []uint32{17, 15, 16}},
	syntax.ProtoLSP:     {syntax.ProtoISIS, []uint32{18, 20}},
	syntax.ProtoSNP:     {syntax.ProtoISIS, []uint32{27, 26, 24, 25}},
	syntax.ProtoCSNP:    {syntax.ProtoISIS, []uint32{24, 25}},
	syntax.ProtoPSNP:    {syntax.ProtoISIS, []uint32{26, 27}},
}

// protocol tests for a protocol by its name alone.
func (w *walk) protocol(p syntax.Proto) bool {
	test := protocolNumbers[p]
	return slices.ContainsFunc(test.numbers, func(v uint32) bool { return w.proto(v, test.in) })
}

// proto tests for a protocol's number in a header.
func (w *walk) proto(v uint32, in syntax.Proto) bool {
	switch in {
	case syntax.ProtoNone:
		return w.proto(v, syntax.ProtoIP) || w.proto(v, syntax.ProtoIP6)
	case syntax.ProtoLink:
		return w.linkIs(v)
	case syntax.ProtoIP:
		return w.linkIs(0x800) && w.net(9, 1) == v
	case syntax.ProtoIP6:
		return w.linkIs(0x86dd) && (w.net(6, 1) == v || w.net(6, 1) == 44 && w.net(40, 1) == v)
	case syntax.ProtoISO:
		return w.linkIs(0xfe) && w.net(w.place.withoutSNAP, 1) == v
	}
	return w.proto(131, syntax.ProtoISO) && w.net(w.place.withoutSNAP+4, 1) == v
}

// chain tests for a protocol behind up to eight headers that have the protocol of the next one.
func (w *walk) chain(v, etherType uint32) bool {
	if !w.linkIs(etherType) {
		return false
	}
	skipped, at, next := []uint32{51}, w.ipv4Body, uint64(9)
	if etherType == 0x86dd {
		skipped, at, next = []uint32{51, 0, 43, 44, 60}, func() uint64 { return w.place.body + 40 }, 6
	}
	header := at()
	protocol := w.net(next, 1)
	for range 8 {
		if protocol == v || !slices.Contains(skipped, protocol) {
			break
		}
		length := (w.number(header+1, 1) + 1) * 8
		if protocol == 51 {
			length = (w.number(header+1, 1) + 2) * 4
		}
		protocol, header = w.number(header, 1), header+uint64(length)
	}
	return protocol == v
}

// linkIs tests for the payload of the header before: an EtherType, or an access point of 802.2.
func (w *walk) linkIs(v uint32) bool {
	p := w.place
	switch {
	case p.labels > 0: // there is no type, but IP's own version
		version := uint32(4)
		if v == 0x86dd {
			version = 6
		}
		return w.number(p.body-2, 1)&1 == 1 && w.net(0, 1)>>4 == version
	case p.kind == "raw":
		switch v {
		case 0x800:
			return w.number(p.header, 1)>>4 == 4
		case 0x86dd:
			return w.number(p.header, 1)>>4 == 6
		}
		return false
	case p.kind == "loopback":
		families := map[uint32][]uint32{0x800: {2, 2 << 24}, 0x86dd: {24, 28, 30, 24 << 24, 28 << 24, 30 << 24}}[v]
		return families != nil && slices.Contains(families, w.number(p.header, 4))
	case p.kind == "cooked2":
		return w.typeField() == v
	case p.kind == "ppp":
		ppp := map[uint32]uint32{0x800: 0x21, 0x86dd: 0x57, 0x6003: 0x27, 0x809b: 0x29, 0x600: 0x25, 0xfe: 0x23, 0x42: 0x31, 0xe0: 0x2b}
		if n, ok := ppp[v]; ok {
			v = n
		}
		return w.typeField() == v
	}
	is8023 := func() bool {
		if p.kind == "cooked" {
			return w.typeField() == 4
		}
		return w.typeField() <= 1500
	}
	snap := func(organisation, v uint32) bool {
		return w.net(4, 4) == organisation<<16|v && w.net(0, 4) == 0xaaaa0300|organisation>>16
	}
	switch v {
	case 0x809b:
		return w.typeField() == v || is8023() && snap(0x080007, v)
	case 0x80f3:
		return w.typeField() == v || is8023() && snap(0, v)
	case 0xe0: // IPX
		if p.kind == "cooked" {
			return w.typeField() == 0x8137 || w.typeField() == 1 || is8023() && (w.net(0, 1) == 0xe0 || snap(0, 0x8137))
		}
		return w.typeField() == 0x8137 || is8023() && (snap(0, 0x8137) || w.net(0, 1) == 0xe0 || w.net(0, 2) == 0xffff)
	case cbpf.SAPISO, cbpf.SAPIP, cbpf.SAPNETBEUI:
		return is8023() && w.net(0, 2) == v<<8|v
	}
	if v <= 1500 {
		return is8023() && w.net(0, 1) == v
	}
	return w.typeField() == v
}
