package dissect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// TestLines has packets whose lines differ from tcpdump's, because it shows more or less of their
// protocol.
func TestLines(t *testing.T) {
	t.Parallel()
	udp := frame(t, true, 0x0800, ip4(17), badUDP(8))
	eth := func(typ layers.EthernetType, b []byte) []byte { return frame(t, true, typ, gopacket.Payload(b)) }
	ip := func(proto layers.IPProtocol, b ...byte) []byte {
		return frame(t, true, 0x0800, ip4(proto), gopacket.Payload(b))
	}
	ip6 := func(proto byte) []byte {
		addresses := append(append(make([]byte, 15), 1), append(make([]byte, 15), 2)...)
		return eth(0x86dd, slices.Concat([]byte{0x60, 0, 0, 0, 0, 8, proto, 64}, addresses, make([]byte, 8)))
	}
	md5 := append([]byte{0, 81, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 16, 1, 0, 0, 0, 0, 0, 19, 18}, make([]byte, 18)...)
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"erspan", ip(47, append([]byte{0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 7, 0, 5, 0, 0, 0, 3}, udp...)...),
			"IP 10.0.0.1 > 10.0.0.2: GREv0, seq 1, length 76: gre-proto-0x88be, ERSPAN session 5, vlan 7, index 3: " +
				"IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 8"},
		{"erspan without a header", ip(47, append([]byte{0, 0, 0x88, 0xbe}, udp...)...),
			"IP 10.0.0.1 > 10.0.0.2: GREv0, length 64: gre-proto-0x88be, ERSPAN: IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 8"},
		{"an EtherType of which tcpdump says more", eth(0x88a2, make([]byte, 46)),
			"02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype AoE (0x88a2), length 60"},
		{"an access point of which tcpdump says more", eth(0x26, append([]byte{0xfe, 0xfe, 3}, make([]byte, 43)...)),
			"02:00:00:00:00:01 > 02:00:00:00:00:02 OSI Unnumbered, ui, Flags [Command], length 38"},
		{"a protocol of which tcpdump says more", ip(46, make([]byte, 40)...), "IP 10.0.0.1 > 10.0.0.2: RSVP (46), length 40"},
		{"signature", ip(6, md5...), "IP 10.0.0.1.81 > 10.0.0.2.40000: Flags [.], ack 2, win 256, options " +
			"[md5 can't check - 00000000000000000000000000000000,eol], length 0"},
		{"ICMPv6 behind IPv4", ip(58, make([]byte, 40)...), "IP 10.0.0.1 > 10.0.0.2: [ICMPv6 requires IPv6] (invalid)"},
		{"ICMP behind IPv6", ip6(1), "IP6 ::1 > ::2: [ICMP requires IPv4] (invalid)"},
		{"IGMP behind IPv6", ip6(2), "IP6 ::1 > ::2: [IGMP requires IPv4] (invalid)"},
		{"no bytes", nil, " [|ether]"},
	}
	for _, tt := range tests {
		got := New(Options{}).AppendLine(nil, Packet{Time: stamp(1), Data: tt.data, WireLen: len(tt.data)})
		want := stamp(1).Local().Format("15:04:05.000000 ") + tt.want + "\n"
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// costlyPackets have as much to decode as fits into 64 KiB.
func costlyPackets(t testing.TB) []packet {
	repeat := func(head []byte, b ...byte) []byte {
		return append(head, bytes.Repeat(b, (65000-len(head))/len(b))...)
	}
	eth := func(typ uint16) []byte { return []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, byte(typ >> 8), byte(typ)} }
	ip := func(proto byte, rest ...byte) []byte {
		return append(append(eth(0x0800), 0x45, 0, 0xfd, 0xda, 0, 77, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2), rest...)
	}
	ip6 := func(next byte, rest ...byte) []byte {
		return append(append(append(append(eth(0x86dd), 0x60, 0, 0, 0, 0xfd, 0xb0, next, 64), ip6A...), ip6B...), rest...)
	}
	to := func(port uint16, rest ...byte) []byte {
		return ip(17, append([]byte{0x9c, 0x40, byte(port >> 8), byte(port), 0xfd, 0xc6, 0, 0}, rest...)...)
	}
	dns := func(answers uint16, rest ...byte) []byte {
		return to(53, append([]byte{0, 7, 0x80, 0, 0, 0, byte(answers >> 8), byte(answers), 0, 0, 0, 0}, rest...)...)
	}
	// Names that point from one pointer to the one before it, and records that begin at the last.
	pointers := []byte{0}
	for at := 13; at < 16300; at += 2 {
		pointers = append(pointers, 0xc0|byte((at-2)>>8), byte(at-2))
	}
	return []packet{
		{name: "vlan", data: repeat(eth(0x8100), 0, 5, 0x81, 0)},
		{name: "mpls", data: repeat(eth(0x8847), 0, 6, 0x40, 64)},
		{name: "ip in ip", data: repeat(eth(0x0800), 0x45, 0, 0xfd, 0xda, 0, 77, 0, 0, 64, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)},
		{name: "options of ip6", data: repeat(ip6(60), append([]byte{60, 255}, make([]byte, 2046)...)...)},
		{name: "routes", data: repeat(ip6(43), append([]byte{43, 254, 4, 0, 0, 0, 0, 0}, make([]byte, 2032)...)...)},
		{name: "dns questions", data: repeat(to(53, 0, 7, 0x80, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0), 0, 0, 1, 0, 1)},
		{name: "dns labels", data: repeat(dns(0xffff), 1, 'a')},
		{name: "dns records", data: repeat(dns(0xffff), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 0, 0, 1)},
		{name: "dns pointers", data: repeat(dns(0xffff, pointers...), 0xff, 0xa0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0xff, 0xa0)},
		{name: "dns options", data: repeat(dns(1, 0, 0, 41, 0, 0, 0, 0, 0, 0, 0xfd, 0x80), 0, 10, 0, 0)},
		{name: "igmp", data: repeat(ip(2, 0x22, 0, 0, 0, 0, 0, 0xff, 0xff), 4, 0, 0, 0, 224, 1, 2, 3)},
		{name: "sctp", data: repeat(ip(132, make([]byte, 12)...), 9, 0, 0, 4)},
		{name: "lldp", data: repeat(eth(0x88cc), 0xfe, 4, 1, 2, 3, 4)},
		{name: "slow", data: repeat(append(eth(0x8809), 1, 1), 9, 2)},
		{name: "pppoe", data: repeat(append(eth(0x8863), 0x11, 9, 0, 0, 0xfd, 0), 1, 1, 0, 0)},
		{name: "icmp6", data: repeat(ip6(58, append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, ip6A...)...), 9, 1, 0, 0, 0, 0, 0, 0)},
		{name: "icmp6 long options", data: repeat(ip6(58, append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, ip6A...)...), append([]byte{200, 255}, make([]byte, 2038)...)...)},
		{name: "dhcp", data: repeat(to(67, append(make([]byte, 236), 0x63, 0x82, 0x53, 0x63)...), 82, 4, 9, 2, 1, 2)},
		{name: "dhcp padding", data: repeat(to(67, append(make([]byte, 236), 0x63, 0x82, 0x53, 0x63)...), 0)},
		{name: "unknown", data: repeat(eth(0x1234), 0xa5)},
		{name: "text", data: repeat(dns(1, 0, 0, 16, 0, 1, 0, 0, 0, 0, 0xfd, 0), 255, 1)},
	}
}

// TestCostly bounds the text and the memory of any packet; BenchmarkCostly shows the time. It runs
// alone, because AllocsPerRun counts the allocations of the whole process.
func TestCostly(t *testing.T) {
	for _, o := range []Options{{}, {Verbose: 1}, {Verbose: 3, LinkLevel: true}} {
		for _, p := range costlyPackets(t) {
			d := New(o)
			var line []byte
			allocs := testing.AllocsPerRun(1, func() {
				line = d.AppendLine(line[:0], Packet{Time: stamp(0), Data: p.data, WireLen: len(p.data)})
			})
			if len(line) > maxLine || allocs > 1000 {
				t.Errorf("%s, %+v: %d bytes, %v allocations", p.name, o, len(line), allocs)
			}
		}
	}
}

// maxLine is the maximum length of lines: the text, one value that exceeds it, and the bytes of
// unknown formats.
const maxLine = 2*maxText + 2*maxUnknown + maxUnknown/16*70 + 512

// longJumbogram is an IPv6 jumbogram whose extension headers leave four bytes of the length in its
// option, and in these an authentication header of twelve.
func longJumbogram() []byte {
	b := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64)
	b = append(b, make([]byte, 32)...)
	b = append(b, 60, 0, 0xc2, 4, 0, 1, 0, 4) // Hop-by-Hop: 65540 bytes
	for i := range 32 {
		options, rest := []byte{60, 0xff}, 245
		if i == 31 {
			options, rest = []byte{51, 0xfe}, 237
		}
		for range 7 { // PadN
			options = append(append(options, 1, 255), make([]byte, 255)...)
		}
		b = append(append(append(b, options...), 1, byte(rest)), make([]byte, rest)...)
	}
	return append(b, 58, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 128, 0, 0, 0, 0, 0, 0, 0)
}

// Headers that exceed the packet's length end its line, and no byte after them is read.
func TestLongJumbogram(t *testing.T) {
	t.Parallel()
	data := longJumbogram()
	for verbose := range 3 {
		line := New(Options{Verbose: verbose}).AppendLine(nil, Packet{Time: stamp(0), Data: data, WireLen: len(data)})
		if !strings.HasSuffix(string(line), "[|ah]\n") {
			t.Errorf("-v %d: %s", verbose, line)
		}
	}
}

// FuzzAppendLine gives AppendLine any bytes with any claim about their length. It must not panic,
// and must write lines of a bounded length that no terminal takes for a command.
func FuzzAppendLine(f *testing.F) {
	for i, p := range slices.Concat(plainPackets(f), protocolPackets(f), applicationPackets(f), loopbackPackets(f)) {
		f.Add(p.data, uint16(0), uint8(i))
		f.Add(p.data[:len(p.data)*3/4], uint16(len(p.data)/4), uint8(i))
	}
	f.Add(longJumbogram(), uint16(0), uint8(1))
	// An option of length 0 must not be printed forever.
	solicitation := append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0, 0)
	f.Add(frame(f, true, 0x86dd, ip6(58), gopacket.Payload(solicitation)), uint16(0), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, flags uint8) {
		o := Options{Verbose: int(flags & 3), Quiet: flags&4 != 0, LinkLevel: flags&8 != 0}
		out := New(o).AppendLine(nil, Packet{Time: stamp(0), Data: data, WireLen: len(data) + int(cut), Link: headers.Link(flags>>4) % (headers.Radiotap + 1)})
		text, whole := strings.CutSuffix(string(out), "\n")
		if !whole {
			t.Fatalf("no newline at the end of %q", text)
		}
		if len(text) > maxLine {
			t.Errorf("%d bytes: %.200q", len(text), text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\t' && r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
			t.Errorf("%q has a byte for no terminal", text)
		}
	})
}

func BenchmarkCostly(b *testing.B) {
	for _, p := range costlyPackets(b) {
		for _, o := range []Options{{}, {Verbose: 3}} {
			b.Run(fmt.Sprintf("%s -v=%d", p.name, o.Verbose), func(b *testing.B) {
				d := New(o)
				var line []byte
				b.ReportAllocs()
				for b.Loop() {
					line = d.AppendLine(line[:0], Packet{Time: stamp(0), Data: p.data, WireLen: len(p.data)})
				}
			})
		}
	}
}

func BenchmarkAppendLine(b *testing.B) {
	for _, pkt := range plainPackets(b) {
		if pkt.name != "tcp syn" && pkt.name != "tcp6 ack" && pkt.name != "udp 22" {
			continue
		}
		b.Run(pkt.name, func(b *testing.B) {
			d := New(Options{})
			var line []byte
			b.ReportAllocs()
			for b.Loop() {
				line = d.AppendLine(line[:0], Packet{Time: time.Unix(1700000000, 0), Data: pkt.data, WireLen: len(pkt.data)})
			}
		})
	}
}

// An offset has four digits, or as many as it takes.
func TestDumpOffsets(t *testing.T) {
	t.Parallel()
	text := string(appendHex(nil, make([]byte, 1<<16+16), false, "\n\t"))
	for _, want := range []string{"\n\t0x0000:  ", "\n\t0xfff0:  ", "\n\t0x10000:  "} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%d lines begin with %q", strings.Count(text, want), want)
		}
	}
}

// The sum of the pseudo-header alone is a checksum that a card is to finish. Each other wrong one
// is called as tcpdump calls it.
func TestUnfinishedChecksum(t *testing.T) {
	t.Parallel()
	packet := func(proto, sumAt byte, sum uint16, b ...byte) []byte { // from ::1 to ::2
		b[sumAt], b[sumAt+1] = byte(sum>>8), byte(sum)
		head := make([]byte, 54)
		head[12], head[13], head[14], head[19], head[20], head[21], head[37], head[53] = 0x86, 0xdd, 0x60, byte(len(b)), proto, 64, 1, 2
		return append(head, b...)
	}
	udp := func(sum uint16) []byte { return packet(17, 6, sum, 0, 7, 0, 9, 0, 8, 0, 0) }
	tcp := func(sum uint16) []byte {
		return packet(6, 16, sum, append([]byte{0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2}, make([]byte, 6)...)...)
	}
	for _, test := range []struct {
		data []byte
		want string
	}{
		{udp(1 + 2 + 8 + 17), "[unfinished udp cksum 0x001c -> 0xffcb] UDP"},
		{udp(1 + 2 + 8 + 18), "[bad udp cksum 0x001d -> 0xffcb!] UDP"},
		{udp(0xffcb), "[udp sum ok] UDP"},
		{tcp(1 + 2 + 20 + 6), "cksum 0x001d (unfinished -> 0xafd0)"},
		{tcp(1 + 2 + 20 + 7), "cksum 0x001e (incorrect -> 0xafd0)"},
		{tcp(0xafd0), "cksum 0xafd0 (correct)"},
	} {
		got := New(Options{Verbose: 2}).AppendLine(nil, Packet{Time: stamp(1), Data: test.data, WireLen: len(test.data)})
		if !strings.Contains(string(got), test.want) {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
