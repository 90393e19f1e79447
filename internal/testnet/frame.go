package testnet

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Sizes in bytes of whole Ethernet frames, without the checksum at the end, which programs never
// see. MinFrame is usually called a 64-byte frame.
const (
	MinFrame = 60
	MaxFrame = 9014 // at MTU 9000

	// SequenceOffset is where a numbered frame has its number: in the first eight bytes of the UDP
	// payload, big endian.
	SequenceOffset = 14 + 20 + 8
)

// NumberedPort is the destination port of numbered frames, and their source port. With several
// source ports (GeneratorOptions.Flows) it is the first.
const NumberedPort = 9999

// Endpoint is one side of a conversation.
type Endpoint struct {
	MAC        net.HardwareAddr
	IPv4, IPv6 net.IP
}

// The ends of a Pair. The MAC addresses are locally administered, the IP addresses are of networks
// reserved for documentation (RFC 5737, RFC 3849). A Pair has the IP addresses on request only.
// Tests must not change these variables.
var (
	TxEndpoint = Endpoint{
		MAC:  net.HardwareAddr{2, 0, 0, 0, 0, 1},
		IPv4: net.IP{192, 0, 2, 1},
		IPv6: net.ParseIP("2001:db8::1"),
	}
	RxEndpoint = Endpoint{
		MAC:  net.HardwareAddr{2, 0, 0, 0, 0, 2},
		IPv4: net.IP{192, 0, 2, 2},
		IPv6: net.ParseIP("2001:db8::2"),
	}
)

// Path builds the frames of one direction. Every frame begins with its Ethernet header, is at least
// MinFrame long, has correct checksums and lengths, and belongs to the caller. Impossible requests
// panic, because they are mistakes in a test.
type Path struct {
	Src, Dst Endpoint
}

// TxToRx is the direction in which a Pair's Sender and Generator send.
func TxToRx() Path { return Path{TxEndpoint, RxEndpoint} }

// Reverse is the direction of the answers.
func (p Path) Reverse() Path { return Path{p.Dst, p.Src} }

// UDPFrame is a numbered frame from Tx to Rx: IPv4 and UDP, size bytes long (MinFrame to MaxFrame),
// with the number seq at SequenceOffset and zeroes after it.
func UDPFrame(size int, seq uint64) []byte {
	if size < MinFrame || size > MaxFrame {
		panic(fmt.Sprintf("testnet: UDP frame of %d bytes", size))
	}
	payload := make([]byte, size-SequenceOffset)
	binary.BigEndian.PutUint64(payload, seq)
	return TxToRx().UDP(NumberedPort, NumberedPort, payload)
}

// Sequence returns the number of a numbered frame. The frame may have VLAN tags, and may be
// truncated after the number. ok is false for any other frame.
func Sequence(frame []byte) (seq uint64, ok bool) {
	const etherType = 12
	tags := 0
	for len(frame) >= SequenceOffset+tags+8 {
		switch at := frame[tags:]; binary.BigEndian.Uint16(at[etherType:]) {
		case uint16(layers.EthernetTypeDot1Q), uint16(layers.EthernetTypeQinQ):
			tags += 4
		case uint16(layers.EthernetTypeIPv4):
			ok = isNumbered(at)
			return binary.BigEndian.Uint64(at[SequenceOffset:]), ok
		default:
			return 0, false
		}
	}
	return 0, false
}

// isNumbered reports whether an untagged frame of at least SequenceOffset + 8 bytes is a numbered
// one.
func isNumbered(frame []byte) bool {
	return binary.BigEndian.Uint16(frame[12:]) == uint16(layers.EthernetTypeIPv4) &&
		frame[14] == 0x45 && frame[23] == uint8(layers.IPProtocolUDP) &&
		binary.BigEndian.Uint16(frame[36:]) == NumberedPort
}

// ARPRequest requests the MAC address of Dst, by broadcast.
func (p Path) ARPRequest() []byte {
	return p.arp(layers.ARPRequest, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 6))
}

// ARPReply sends the MAC address of Src to Dst.
func (p Path) ARPReply() []byte {
	return p.arp(layers.ARPReply, p.Dst.MAC, p.Dst.MAC)
}

func (p Path) arp(op uint16, to net.HardwareAddr, target []byte) []byte {
	return serialize(
		&layers.Ethernet{SrcMAC: p.Src.MAC, DstMAC: to, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
			HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
			SourceHwAddress: p.Src.MAC, SourceProtAddress: p.Src.IPv4,
			DstHwAddress: target, DstProtAddress: p.Dst.IPv4,
		})
}

// ICMPEcho is an ICMP echo request, or the reply, with the running number seq.
func (p Path) ICMPEcho(reply bool, seq uint16) []byte {
	kind := uint8(layers.ICMPv4TypeEchoRequest)
	if reply {
		kind = layers.ICMPv4TypeEchoReply
	}
	return serialize(p.ethernet(layers.EthernetTypeIPv4), p.ipv4(layers.IPProtocolICMPv4),
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0), Id: 1, Seq: seq},
		gopacket.Payload(echoData))
}

// ICMPv6Echo is ICMPEcho over IPv6.
func (p Path) ICMPv6Echo(reply bool, seq uint16) []byte {
	kind := uint8(layers.ICMPv6TypeEchoRequest)
	if reply {
		kind = layers.ICMPv6TypeEchoReply
	}
	ip := p.ipv6(layers.IPProtocolICMPv6)
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	check(icmp.SetNetworkLayerForChecksum(ip))
	return serialize(p.ethernet(layers.EthernetTypeIPv6), ip, icmp,
		&layers.ICMPv6Echo{Identifier: 1, SeqNumber: seq}, gopacket.Payload(echoData))
}

var echoData = []byte("abcdefghijklmnopqrstuvwabcdefghi")

// UDP is a datagram over IPv4.
func (p Path) UDP(srcPort, dstPort uint16, payload []byte) []byte {
	return p.udp(layers.EthernetTypeIPv4, srcPort, dstPort, payload)
}

// UDPv6 is a datagram over IPv6.
func (p Path) UDPv6(srcPort, dstPort uint16, payload []byte) []byte {
	return p.udp(layers.EthernetTypeIPv6, srcPort, dstPort, payload)
}

func (p Path) udp(t layers.EthernetType, srcPort, dstPort uint16, payload []byte) []byte {
	udp := &layers.UDP{SrcPort: layers.UDPPort(srcPort), DstPort: layers.UDPPort(dstPort)}
	ip := p.ip(t, layers.IPProtocolUDP)
	check(udp.SetNetworkLayerForChecksum(ip))
	return serialize(p.ethernet(t), ip, udp, gopacket.Payload(payload))
}

// Segment describes a TCP segment.
type Segment struct {
	SrcPort, DstPort   uint16
	Seq, Ack           uint32 // Ack other than 0 sets the ACK flag
	SYN, FIN, PSH, RST bool
	Payload            []byte
}

// TCP is a segment over IPv4.
func (p Path) TCP(s Segment) []byte { return p.tcp(layers.EthernetTypeIPv4, s) }

// TCPv6 is a segment over IPv6.
func (p Path) TCPv6(s Segment) []byte { return p.tcp(layers.EthernetTypeIPv6, s) }

func (p Path) tcp(t layers.EthernetType, s Segment) []byte {
	tcp := &layers.TCP{
		SrcPort: layers.TCPPort(s.SrcPort), DstPort: layers.TCPPort(s.DstPort),
		Seq: s.Seq, Ack: s.Ack, ACK: s.Ack != 0,
		SYN: s.SYN, FIN: s.FIN, PSH: s.PSH, RST: s.RST, Window: 64240,
	}
	if s.SYN {
		mss := []byte{1460 >> 8, 1460 & 0xff}
		tcp.Options = []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: mss}}
	}
	ip := p.ip(t, layers.IPProtocolTCP)
	check(tcp.SetNetworkLayerForChecksum(ip))
	return serialize(p.ethernet(t), ip, tcp, gopacket.Payload(s.Payload))
}

// VLAN is a copy of frame with an IEEE 802.1Q tag of this VLAN (0 to 4095).
func VLAN(frame []byte, id uint16) []byte {
	return tag(frame, layers.EthernetTypeDot1Q, id)
}

// QinQ is a copy of frame with the two tags of IEEE 802.1ad.
func QinQ(frame []byte, outer, inner uint16) []byte {
	return tag(VLAN(frame, inner), layers.EthernetTypeQinQ, outer)
}

func tag(frame []byte, t layers.EthernetType, id uint16) []byte {
	if id > 4095 {
		panic(fmt.Sprintf("testnet: VLAN %d", id))
	}
	return slices.Concat(frame[:12], []byte{byte(t >> 8), byte(t), byte(id >> 8), byte(id)}, frame[12:])
}

func (p Path) ethernet(t layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: p.Src.MAC, DstMAC: p.Dst.MAC, EthernetType: t}
}

// ipLayer is an IP header: it goes into a frame, and into the checksum of the transport layer.
type ipLayer interface {
	gopacket.NetworkLayer
	gopacket.SerializableLayer
}

func (p Path) ip(t layers.EthernetType, next layers.IPProtocol) ipLayer {
	if t == layers.EthernetTypeIPv6 {
		return p.ipv6(next)
	}
	return p.ipv4(next)
}

func (p Path) ipv4(next layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: next, SrcIP: p.Src.IPv4, DstIP: p.Dst.IPv4}
}

func (p Path) ipv6(next layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: next, SrcIP: p.Src.IPv6, DstIP: p.Dst.IPv6}
}

func serialize(ls ...gopacket.SerializableLayer) []byte {
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	check(gopacket.SerializeLayers(buf, opts, ls...))
	return buf.Bytes()
}

func check(err error) {
	if err != nil {
		panic(fmt.Sprintf("testnet: build frame: %v", err))
	}
}
