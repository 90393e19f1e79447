package follow

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// A testPacket is an IP packet as a test describes it. The zero value is an empty TCP segment from
// 10.0.0.1:1000 to 10.0.0.2:80.
type testPacket struct {
	v6       bool
	from     string // address; "" = 10.0.0.1 or fd00::1
	protocol byte   // 0 = TCP
	ipID     uint16
	ttl      byte
	fragment uint16 // field of IPv4's header, or offset and flag of IPv6's
	isPiece  bool   // IPv6: there is a fragment header
	port     uint16 // source; 0 = 1000
	seq, ack uint32
	flags    byte // of TCP
	checksum uint16
	data     string
	padding  int    // bytes after the packet
	mac      byte   // the last of the source
	tags     []byte // VLAN ids, the outermost first
	jumbo    bool   // the header's length is 0
}

// transport is TCP's or UDP's header, an echo request, or only the data of a later fragment.
func (p *testPacket) transport() []byte {
	port, b := p.port, []byte(nil)
	if port == 0 {
		port = 1000
	}
	switch p.protocol {
	case 0, 6:
		b = binary.BigEndian.AppendUint16(b, port)
		b = binary.BigEndian.AppendUint16(b, 80)
		b = binary.BigEndian.AppendUint32(b, p.seq)
		b = binary.BigEndian.AppendUint32(b, p.ack)
		b = append(b, 5<<4, p.flags, 1, 0)
		b = binary.BigEndian.AppendUint16(b, p.checksum)
		b = append(b, 0, 0)
	case 17:
		b = binary.BigEndian.AppendUint16(b, port)
		b = binary.BigEndian.AppendUint16(b, 53)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(p.data)))
		b = binary.BigEndian.AppendUint16(b, p.checksum)
	case 1, 58:
		b = append(b, 8, 0)
		b = binary.BigEndian.AppendUint16(b, p.checksum)
		b = binary.BigEndian.AppendUint16(b, 7) // the id
		b = binary.BigEndian.AppendUint16(b, uint16(p.seq))
	}
	return append(b, p.data...)
}

// frame is the packet in an Ethernet frame.
func (p testPacket) frame() []byte {
	protocol, from, to := p.protocol, p.from, "10.0.0.2"
	if protocol == 0 {
		protocol = 6
	}
	etherType := []byte{8, 0}
	if p.v6 {
		etherType, to = []byte{0x86, 0xdd}, "fd00::2"
	}
	if from == "" {
		from = to[:len(to)-1] + "1"
	}
	body := p.transport()
	var ip []byte
	if p.v6 {
		if p.isPiece {
			piece := []byte{protocol, 0}
			piece = binary.BigEndian.AppendUint16(piece, p.fragment)
			piece = binary.BigEndian.AppendUint32(piece, uint32(p.ipID))
			body, protocol = append(piece, body...), 44
		}
		ip = []byte{0x60, 0, 0, 0}
		ip = binary.BigEndian.AppendUint16(ip, uint16(len(body)))
		ip = append(ip, protocol, 64-p.ttl)
	} else {
		ip = []byte{0x45, 0}
		ip = binary.BigEndian.AppendUint16(ip, uint16(20+len(body)))
		ip = binary.BigEndian.AppendUint16(ip, p.ipID)
		ip = binary.BigEndian.AppendUint16(ip, p.fragment)
		ip = append(ip, 64-p.ttl, protocol, p.ttl, p.ttl) // the header's checksum is not looked at
	}
	if p.jumbo {
		at := 2
		if p.v6 {
			at = 4
		}
		ip[at], ip[at+1] = 0, 0
	}
	ip = append(ip, netip.MustParseAddr(from).AsSlice()...)
	ip = append(ip, netip.MustParseAddr(to).AsSlice()...)
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, p.mac}
	for _, id := range p.tags {
		frame = append(frame, 0x81, 0, 0, id)
	}
	return slices.Concat(frame, etherType, ip, body, make([]byte, p.padding))
}
