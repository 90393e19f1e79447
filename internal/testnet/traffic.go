package testnet

import (
	"bytes"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// MixedTraffic returns a short conversation between a client on Tx and a server on Rx, both
// directions in their real order: address resolution, ping, DNS queries, a web page over IPv4, the
// beginning of one over IPv6, and tagged frames. All of it can be sent from Tx: XDP on Rx
// does not check addresses.
func MixedTraffic() [][]byte {
	out := TxToRx()
	in := out.Reverse()
	frames := [][]byte{out.ARPRequest(), in.ARPReply()}
	for seq := range uint16(2) {
		frames = append(frames, out.ICMPEcho(false, seq+1), in.ICMPEcho(true, seq+1))
	}
	frames = append(frames, out.ICMPv6Echo(false, 1), in.ICMPv6Echo(true, 1))
	frames = append(frames, out.DNSQuery("www.example.com"), out.dnsQueryv6("www.example.com"))
	frames = append(frames, webPage(out, in)...)
	frames = append(frames,
		out.TCPv6(Segment{SrcPort: 40002, DstPort: 443, Seq: 5000, SYN: true}),
		in.TCPv6(Segment{SrcPort: 443, DstPort: 40002, Seq: 9000, Ack: 5001, SYN: true}),
		out.TCPv6(Segment{SrcPort: 40002, DstPort: 443, Seq: 5001, Ack: 9001}),
		in.TCPv6(Segment{SrcPort: 443, DstPort: 40002, Seq: 9001, Ack: 5001, RST: true}),
	)
	syn := out.TCP(Segment{SrcPort: 40003, DstPort: 443, Seq: 7000, SYN: true})
	return append(frames, VLAN(out.ICMPEcho(false, 3), 100), VLAN(syn, 100), QinQ(out.ICMPEcho(false, 4), 200, 100))
}

// webPage is a whole TCP connection, from SYN to the last ACK.
func webPage(out, in Path) [][]byte {
	request := []byte("GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
	header := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1200\r\n\r\n")
	page := append(header, bytes.Repeat([]byte("0123456789abcdef"), 75)...)

	client := Segment{SrcPort: 40001, DstPort: 80, Seq: 1000}
	server := Segment{SrcPort: 80, DstPort: 40001, Seq: 3000, Ack: 1001}
	var frames [][]byte
	// Each step sends a segment, and advances the sequence numbers by the length of its payload,
	// plus one for SYN and FIN.
	step := func(p Path, from, to *Segment, s Segment) {
		s.SrcPort, s.DstPort, s.Seq, s.Ack = from.SrcPort, from.DstPort, from.Seq, from.Ack
		frames = append(frames, p.TCP(s))
		from.Seq += uint32(len(s.Payload))
		if s.SYN || s.FIN {
			from.Seq++
		}
		to.Ack = from.Seq
	}
	step(out, &client, &server, Segment{SYN: true})
	step(in, &server, &client, Segment{SYN: true})
	step(out, &client, &server, Segment{})
	step(out, &client, &server, Segment{PSH: true, Payload: request})
	step(in, &server, &client, Segment{PSH: true, Payload: page})
	step(out, &client, &server, Segment{})
	step(in, &server, &client, Segment{FIN: true})
	step(out, &client, &server, Segment{FIN: true})
	step(in, &server, &client, Segment{})
	return frames
}

// DNSQuery requests a name's IPv4 address from Dst, over IPv4.
func (p Path) DNSQuery(name string) []byte {
	return p.UDP(50001, 53, dnsQuery(name, layers.DNSTypeA))
}

// dnsQueryv6 requests a name's IPv6 address from Dst, over IPv6.
func (p Path) dnsQueryv6(name string) []byte {
	return p.UDPv6(50002, 53, dnsQuery(name, layers.DNSTypeAAAA))
}

func dnsQuery(name string, t layers.DNSType) []byte {
	buf := gopacket.NewSerializeBuffer()
	query := &layers.DNS{ID: 1, RD: true, Questions: []layers.DNSQuestion{{
		Name: []byte(name), Type: t, Class: layers.DNSClassIN,
	}}}
	check(query.SerializeTo(buf, gopacket.SerializeOptions{FixLengths: true}))
	return buf.Bytes()
}
