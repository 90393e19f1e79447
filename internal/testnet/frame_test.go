package testnet

import (
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// onesSum returns the sum of the Internet checksum (RFC 1071), which is 0xffff over data that
// contains a correct checksum.
func onesSum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for ; len(b) >= 2; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// checkSums recomputes a frame's checksums from its bytes, not by the library
// that made them.
func checkSums(t *testing.T, p gopacket.Packet) {
	t.Helper()
	var pseudo []byte
	network := p.NetworkLayer()
	if network == nil {
		return // ARP has none
	}
	segment := network.LayerPayload()
	length := binary.BigEndian.AppendUint32(nil, uint32(len(segment)))
	switch ip := network.(type) {
	case *layers.IPv4:
		if onesSum(ip.Contents) != 0xffff {
			t.Error("wrong IPv4 header checksum")
		}
		if ip.Protocol != layers.IPProtocolICMPv4 {
			pseudo = append(append(append(pseudo, ip.SrcIP...), ip.DstIP...), 0, 0, 0, byte(ip.Protocol))
		} else {
			length = nil
		}
	case *layers.IPv6:
		pseudo = append(append(append(pseudo, ip.SrcIP...), ip.DstIP...), 0, 0, 0, byte(ip.NextHeader))
	}
	if onesSum(pseudo, length, segment) != 0xffff {
		t.Error("wrong checksum behind the IP header")
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	out := TxToRx()
	eth, dot1q := layers.LayerTypeEthernet, layers.LayerTypeDot1Q
	for _, c := range []struct {
		name  string
		frame []byte
		want  []gopacket.LayerType
	}{
		{"udp", UDPFrame(MinFrame, 1), []gopacket.LayerType{eth, layers.LayerTypeIPv4, layers.LayerTypeUDP}},
		{"arp request", out.ARPRequest(), []gopacket.LayerType{eth, layers.LayerTypeARP}},
		{"arp reply", out.Reverse().ARPReply(), []gopacket.LayerType{eth, layers.LayerTypeARP}},
		{"icmp", out.ICMPEcho(false, 3), []gopacket.LayerType{eth, layers.LayerTypeIPv4, layers.LayerTypeICMPv4}},
		{"icmpv6", out.ICMPv6Echo(true, 3), []gopacket.LayerType{eth, layers.LayerTypeIPv6, layers.LayerTypeICMPv6, layers.LayerTypeICMPv6Echo}},
		{"dns", out.DNSQuery("example.com"), []gopacket.LayerType{eth, layers.LayerTypeIPv4, layers.LayerTypeUDP, layers.LayerTypeDNS}},
		{"dns over ipv6", out.dnsQueryv6("example.com"), []gopacket.LayerType{eth, layers.LayerTypeIPv6, layers.LayerTypeUDP, layers.LayerTypeDNS}},
		{"tcp syn", out.TCP(Segment{SrcPort: 40000, DstPort: 443, SYN: true}), []gopacket.LayerType{eth, layers.LayerTypeIPv4, layers.LayerTypeTCP}},
		{"tcp fin over ipv6", out.TCPv6(Segment{SrcPort: 40000, DstPort: 443, FIN: true, Ack: 1}), []gopacket.LayerType{eth, layers.LayerTypeIPv6, layers.LayerTypeTCP}},
		{"vlan", VLAN(out.ARPRequest(), 100), []gopacket.LayerType{eth, dot1q, layers.LayerTypeARP}},
		{"qinq", QinQ(UDPFrame(100, 1), 200, 100), []gopacket.LayerType{eth, dot1q, dot1q, layers.LayerTypeIPv4, layers.LayerTypeUDP}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := gopacket.NewPacket(c.frame, eth, gopacket.Default)
			if err := p.ErrorLayer(); err != nil {
				t.Fatal(err.Error())
			}
			got := p.Layers()
			if len(got) < len(c.want) {
				t.Fatalf("layers %v, want %v", got, c.want)
			}
			for i, want := range c.want {
				if got[i].LayerType() != want {
					t.Errorf("layer %d is %v, want %v", i, got[i].LayerType(), want)
				}
			}
			if len(c.frame) < MinFrame {
				t.Errorf("%d bytes, want at least %d", len(c.frame), MinFrame)
			}
			checkSums(t, p)
		})
	}
}

func TestMixedTraffic(t *testing.T) {
	t.Parallel()
	frames := MixedTraffic()
	if len(frames) < 20 {
		t.Errorf("%d frames", len(frames))
	}
	for i, frame := range frames {
		p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		if err := p.ErrorLayer(); err != nil {
			t.Errorf("frame %d: %v: %v", i, err.Error(), p)
		}
		if len(frame) > 1518 {
			t.Errorf("frame %d has %d bytes", i, len(frame))
		}
		checkSums(t, p)
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	const seq = 0x0102030405060708
	for _, size := range []int{MinFrame, 64, 1514, MaxFrame} {
		frame := UDPFrame(size, seq)
		if len(frame) != size {
			t.Errorf("%d bytes, want %d", len(frame), size)
		}
		for name, f := range map[string][]byte{
			"plain": frame, "vlan": VLAN(frame, 1), "qinq": QinQ(frame, 1, 2), "cut": frame[:SequenceOffset+8],
		} {
			if got, ok := Sequence(f); !ok || got != seq {
				t.Errorf("%s, %d bytes: number %#x, %v", name, size, got, ok)
			}
		}
	}
	for name, f := range map[string][]byte{
		"nothing": nil, "short": UDPFrame(MinFrame, seq)[:SequenceOffset+7],
		"arp": TxToRx().ARPRequest(), "dns": TxToRx().DNSQuery("a"),
	} {
		if _, ok := Sequence(f); ok {
			t.Errorf("%s: has a number", name)
		}
	}
}
