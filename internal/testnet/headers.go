package testnet

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Headers is a frame and the values of its headers, decoded by gopacket.
type Headers struct {
	Name  string
	Frame []byte

	IPVersion           int // 4, 6, or 0 for everything else
	Protocol            int // number of the upper-layer protocol, or the EtherType; 0 if there is a length instead
	Source, Destination netip.AddrPort
	Fragment            bool // the frame has only a part of a packet
	Truncated           bool // the frame ends before its protocol is known

	protocolEnd int // bytes of the frame up to the protocol
	portsEnd    int // bytes of the frame up to the ports; 0 = it has none
}

// Cut returns the same frame cut to n bytes.
func (h Headers) Cut(n int) Headers {
	h.Frame = h.Frame[:n]
	if n < h.portsEnd {
		h.Source = netip.AddrPortFrom(h.Source.Addr(), 0)
		h.Destination = netip.AddrPortFrom(h.Destination.Addr(), 0)
	}
	if n < h.protocolEnd {
		h.IPVersion, h.Protocol, h.Fragment, h.Truncated = 0, 0, false, true
		h.Source, h.Destination = netip.AddrPort{}, netip.AddrPort{}
	}
	return h
}

// HeaderTable returns frames with all kinds of headers that programs parse, and those of
// MixedTraffic.
func HeaderTable() (table []Headers) {
	add := func(name string, frame []byte) { table = append(table, decodeHeaders(name, frame)) }
	addTagged := func(name string, frame []byte) {
		add(name, frame)
		add(name+", VLAN", VLAN(frame, 5))
		add(name+", QinQ", QinQ(frame, 5, 6))
	}
	for _, frame := range MixedTraffic() {
		add("mixed traffic", frame)
	}
	addTagged("802.3", etherFrame(38, make([]byte, 38)))
	addTagged("unknown EtherType", etherFrame(0x88b5, make([]byte, 46)))
	for _, protocol := range []struct {
		name   string
		number byte
	}{{"ICMP", 1}, {"TCP", 6}, {"UDP", 17}, {"DCCP", 33}, {"GRE", 47}, {"ESP", 50}, {"SCTP", 132}, {"UDPLITE", 136}} {
		n := protocol.number
		addTagged(protocol.name, ipv4Frame(n, 0x4000, 0))
		add(protocol.name+" with options", ipv4Frame(n, 0, 12))
		add(protocol.name+" with most options", ipv4Frame(n, 0, 40))
		add(protocol.name+", first fragment", ipv4Frame(n, 0x2000, 0))
		add(protocol.name+", later fragment", ipv4Frame(n, 0x2005, 0))
		add(protocol.name+", last fragment", ipv4Frame(n, 0x0005, 0))
		addTagged(protocol.name+" of IPv6", ipv6Frame(n))
		for _, next := range []byte{hopByHop, routing, destination, mobility, authentication} {
			add(protocol.name+" behind one extension", ipv6Frame(n, extensionHeader{next, 1, 0}))
			add(protocol.name+" behind a longer extension", ipv6Frame(n, extensionHeader{next, 4, 0}))
		}
		add(protocol.name+" behind every extension", ipv6Frame(n, extensionHeader{hopByHop, 1, 0}, extensionHeader{routing, 2, 0},
			extensionHeader{fragment, 0, 1}, extensionHeader{authentication, 4, 0}, extensionHeader{destination, 0, 0},
			extensionHeader{mobility, 0, 0}))
		add(protocol.name+" of IPv6, first fragment", ipv6Frame(n, extensionHeader{fragment, 0, 1}))
		add(protocol.name+" of IPv6, later fragment", ipv6Frame(n, extensionHeader{fragment, 0, 0xb9}))
		add(protocol.name+" of IPv6, last fragment", ipv6Frame(n, extensionHeader{fragment, 0, 0xb8}))
		add(protocol.name+" of IPv6, the only fragment", ipv6Frame(n, extensionHeader{fragment, 0, 0}))
	}
	add("no next header", ipv6Frame(59, extensionHeader{mobility, 0, 0}))
	return table
}

// Numbers of the extension headers of IPv6.
const (
	hopByHop       = 0
	routing        = 43
	fragment       = 44
	authentication = 51
	destination    = 60
	mobility       = 135
)

func etherFrame(etherType uint16, parts ...[]byte) []byte {
	frame := slices.Concat(RxEndpoint.MAC, TxEndpoint.MAC)
	return slices.Concat(binary.BigEndian.AppendUint16(frame, etherType), slices.Concat(parts...))
}

// transportHeader returns two ports, and enough zeroes for the header of any protocol.
func transportHeader() []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h, 40001)
	binary.BigEndian.PutUint16(h[2:], 443)
	return h
}

// ipv4Frame returns a frame whose IPv4 header has this many bytes of options. field is the header's
// 16 bits of fragment flags and offset.
func ipv4Frame(protocol byte, field uint16, options int) []byte {
	h := make([]byte, 20, 60)
	h[0], h[8], h[9] = byte(0x45+options/4), 64, protocol
	binary.BigEndian.PutUint16(h[2:], uint16(20+options+20))
	binary.BigEndian.PutUint16(h[6:], field)
	copy(h[12:], TxEndpoint.IPv4)
	copy(h[16:], RxEndpoint.IPv4)
	for range options {
		h = append(h, 1) // no operation
	}
	return etherFrame(0x0800, h, transportHeader())
}

// An extensionHeader is one of IPv6. length is its length field as in the packet; field is the
// position field of a fragment header.
type extensionHeader struct {
	number, length byte
	field          uint16
}

func ipv6Frame(protocol byte, extensions ...extensionHeader) []byte {
	h := make([]byte, 40)
	h[0], h[7] = 0x60, 64
	copy(h[8:], TxEndpoint.IPv6)
	copy(h[24:], RxEndpoint.IPv6)
	next := &h[6]
	var parts [][]byte
	size := 20
	for _, e := range extensions {
		*next = e.number
		bytes := make([]byte, extensionSize(e.number, e.length))
		bytes[1] = e.length
		if e.number == hopByHop || e.number == destination {
			bytes[2], bytes[3] = 1, byte(len(bytes)-4) // one option, which is padding
		} else {
			binary.BigEndian.PutUint16(bytes[2:], e.field)
		}
		next = &bytes[0]
		parts = append(parts, bytes)
		size += len(bytes)
	}
	*next = protocol
	binary.BigEndian.PutUint16(h[4:], uint16(size))
	return etherFrame(0x86dd, h, slices.Concat(parts...), transportHeader())
}

func extensionSize(number, length byte) int {
	switch number {
	case fragment:
		return 8
	case authentication: // in units of 4 bytes, less 2 of them
		return max(8, (int(length)+2)*4)
	}
	return (int(length) + 1) * 8
}

// decodeHeaders panics if gopacket cannot decode the frame, because then the frame is wrong.
func decodeHeaders(name string, frame []byte) Headers {
	h := Headers{Name: name, Frame: frame}
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			h.Protocol, h.protocolEnd = int(l.EthernetType), 14
		case *layers.Dot1Q:
			h.Protocol, h.protocolEnd = int(l.Type), h.protocolEnd+4
		case *layers.IPv4:
			h.IPVersion, h.Protocol, h.protocolEnd = 4, int(l.Protocol), h.protocolEnd+20
			h.Fragment = l.FragOffset != 0 || l.Flags&layers.IPv4MoreFragments != 0
			h.decodePorts(l.SrcIP, l.DstIP, l.Payload, l.FragOffset == 0)
			return h
		case *layers.IPv6:
			h.IPVersion, h.protocolEnd = 6, h.protocolEnd+40
			upper, payload, isFirst := h.decodeExtensions(l.NextHeader, frame[h.protocolEnd:])
			h.Protocol = int(upper)
			h.decodePorts(l.SrcIP, l.DstIP, payload, isFirst)
			return h
		}
	}
	if h.Protocol < 0x600 { // a length of IEEE 802.3, which gopacket does not decode after a tag
		h.Protocol = 0
	}
	return h
}

// decodeExtensions returns the upper-layer protocol, the data after the extension headers, and
// whether the data are the protocol's first. Unlike gopacket it goes on after a fragment header,
// and after the mobility header.
func (h *Headers) decodeExtensions(next layers.IPProtocol, data []byte) (upper layers.IPProtocol, payload []byte, isFirst bool) {
	for {
		at := len(h.Frame) - len(data)
		var kind gopacket.LayerType
		switch next {
		case hopByHop:
			kind = layers.LayerTypeIPv6HopByHop
		case mobility:
			next, data = layers.IPProtocol(data[0]), data[extensionSize(mobility, data[1]):]
			h.protocolEnd = at + 8
			continue
		case routing, fragment, destination, authentication:
			kind = next.LayerType()
		default:
			return next, data, true
		}
		h.protocolEnd = at + 8
		l := gopacket.NewPacket(data, kind, gopacket.NoCopy).Layers()[0]
		data = l.LayerPayload()
		switch l := l.(type) {
		case *layers.IPv6HopByHop:
			next = l.NextHeader
		case *layers.IPv6Routing:
			next = l.NextHeader
		case *layers.IPv6Destination:
			next = l.NextHeader
		case *layers.IPSecAH:
			next = l.NextHeader
		case *layers.IPv6Fragment:
			next = l.NextHeader
			h.Fragment = l.FragmentOffset != 0 || l.MoreFragments
			if l.FragmentOffset != 0 {
				return next, data, false
			}
		default:
			panic("testnet: " + h.Name + ": gopacket cannot decode an extension header")
		}
	}
}

// decodePorts sets the addresses, and the ports if the payload begins with the header of a protocol
// that has ports.
func (h *Headers) decodePorts(source, destination []byte, payload []byte, isFirst bool) {
	var ports [2]uint16
	switch layers.IPProtocol(h.Protocol) {
	case layers.IPProtocolTCP, layers.IPProtocolUDP, layers.IPProtocolSCTP, layers.IPProtocolUDPLite, 33: // DCCP
		if isFirst {
			ports = [2]uint16{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
			h.portsEnd = cap(h.Frame) - cap(payload) + 4 // the payload is a part of the frame's memory
		}
	}
	address := func(b []byte, port uint16) netip.AddrPort {
		a, _ := netip.AddrFromSlice(b)
		return netip.AddrPortFrom(a, port)
	}
	h.Source, h.Destination = address(source, ports[0]), address(destination, ports[1])
}
