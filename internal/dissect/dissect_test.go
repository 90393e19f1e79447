package dissect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// TestLines has packets whose lines differ from those of tcpdump: with tags, with protocols that
// have no format here, and with headers that are wrong or cut.
func TestLines(t *testing.T) {
	udp := frame(t, true, 0x0800, ip4(17), badUDP(8))[14:50] // without the frame's padding
	udp6 := frame(t, true, 0x86dd, ip6(17), badUDP(8))[14:]
	const udpLine = "IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 8"
	tag := func(tci uint16, next uint16, rest ...byte) []byte {
		return append([]byte{byte(tci >> 8), byte(tci), byte(next >> 8), byte(next)}, rest...)
	}
	eth := func(typ layers.EthernetType, b []byte) []byte { return frame(t, true, typ, gopacket.Payload(b)) }
	later := ip4(17)
	later.FragOffset = 3
	mapped := ip6(17)
	mapped.SrcIP = ipA.To16()
	nested := []gopacket.SerializableLayer{}
	for range 10 {
		nested = append(nested, ip4(4))
	}
	tests := []struct {
		name string
		data []byte
		cut  int // bytes that were not kept
		want string
	}{
		{"vlan", eth(0x8100, tag(5, 0x0800, udp...)), 0, "vlan 5, p 0, " + udpLine},
		{"vlan, priority, drop eligible", eth(0x8100, tag(0xb005, 0x0800, udp...)), 0, "vlan 5, p 5, DEI, " + udpLine},
		{"qinq", eth(0x88a8, tag(7, 0x8100, tag(5, 0x86dd, udp6...)...)), 0,
			"vlan 7, p 0, vlan 5, p 0, IP6 fd00::1.40000 > fe80::2:0:0:3.50001: UDP, length 8"},
		{"vlan, cut", eth(0x8100, nil)[:16], 44, "[|vlan]"},
		{"vlan, then cut", eth(0x8100, tag(5, 0x0800))[:18], 44, "vlan 5, p 0, [|ip]"},
		{"mpls", eth(0x8847, append([]byte{0, 6, 0x40, 64, 0, 6, 0x51, 63}, udp...)), 0,
			"MPLS (label 100, tc 0, ttl 64) MPLS (label 101, tc 0, ttl 63) " + udpLine},
		{"mpls, cut", eth(0x8847, []byte{0, 6, 0x40, 64})[:18], 50, "MPLS (label 100, tc 0, ttl 64) [|mpls]"},
		{"pppoe", eth(0x8864, append([]byte{0x11, 0, 0, 9, 0, 38, 0, 0x21}, udp...)), 0, "PPPoE  [ses 0x9] " + udpLine},
		{"lldp", eth(0x88cc, make([]byte, 46)), 0, "ethertype 0x88cc, length 60"},
		{"no name", eth(0x1234, make([]byte, 50)), 0, "ethertype 0x1234, length 64"},
		{"vlan, no name", eth(0x8100, tag(5, 0x1234, make([]byte, 50)...)), 0,
			"vlan 5, p 0, ethertype 0x1234, length 68"},
		{"802.3", eth(0x0026, make([]byte, 46)), 0, "802.3, length 60"},
		{"fragment", eth(0x0800, frame(t, true, 0x0800, later, gopacket.Payload(make([]byte, 24)))[14:]), 0,
			"IP 10.0.0.1 > 10.0.0.2: ip-proto-17"},
		{"named protocol", eth(0x0800, frame(t, true, 0x0800, ip4(89), gopacket.Payload(make([]byte, 24)))[14:]), 0,
			"IP 10.0.0.1 > 10.0.0.2: OSPF (89), length 24"},
		{"gre with key", frame(t, true, 0x0800, ip4(47), gopacket.Payload(append([]byte{0x20, 0, 8, 0, 0, 0, 0, 7}, udp...))), 0,
			"IP 10.0.0.1 > 10.0.0.2: GREv0, length 44: " + udpLine},
		{"tunnels", frame(t, true, 0x0800, nested...), 0, strings.Repeat("IP 10.0.0.1 > 10.0.0.2: ", 10) + "[odd ip]"},
		{"padding is no TCP header", eth(0x0800, append(frame(t, true, 0x0800, ip4(6), gopacket.Payload{0, 1, 0, 2})[14:38],
			make([]byte, 22)...)), 0, "IP 10.0.0.1 > 10.0.0.2: [|tcp]"},
		{"extension header beyond the packet", frame(t, true, 0x86dd, ip6(0), gopacket.Payload{17, 255, 1, 4, 0, 0, 0, 0}), 0,
			"IP6 fd00::1 > fe80::2:0:0:3: [odd ip6]"},
		{"no bytes", nil, 0, "[|ether]"},
		{"bytes of which none were kept", nil, 60, "[|ether]"},
		{"wrong version", eth(0x0800, []byte{0x75, 0}), 60, "[|ip]"},
		{"short header length", eth(0x0800, append([]byte{0x44}, udp[1:]...)), 0, "[odd ip]"},
		{"total beyond the frame", eth(0x0800, udp)[:14+34], 0, "IP truncated-ip - 2 bytes missing! 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 8"},
		{"bad option", frame(t, true, 0x0800, ip4(6), gopacket.Payload{0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0, 0, 0, 0, 0, 0,
			1, 1, 2, 9}), 0, "IP 10.0.0.1.1 > 10.0.0.2.2: Flags [S], seq 1, win 0, options [nop,nop [odd tcp]"},
		{"mapped address", frame(t, true, 0x86dd, mapped, badUDP(8)), 0, "IP6 ::ffff:10.0.0.1.40000 > fe80::2:0:0:3.50001: UDP, length 8"},
		{"ppp control", eth(0x8864, []byte{0x11, 0, 0, 9, 0, 6, 0xc0, 0x21, 9, 0, 0, 4}), 0, "PPPoE  [ses 0x9] [odd ppp]"},
		{"cut payload", eth(0x0800, udp)[:14+30], 20, udpLine},
	}
	for _, tt := range tests {
		got := New(Options{}).AppendLine(nil, Packet{Time: stamp(1), Data: tt.data, WireLen: len(tt.data) + tt.cut})
		want := stamp(1).Local().Format("15:04:05.000000 ") + tt.want + "\n"
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What the caller's slice had before the line stays as it was, and the lines of one Dissector do
// not depend on each other.
func TestAppendLine(t *testing.T) {
	d := New(Options{})
	packets := plainPackets(t)
	for i, p := range packets {
		before := "what was there "
		got := string(d.AppendLine([]byte(before), Packet{Time: stamp(i), Data: p.data, WireLen: len(p.data)}))
		if diff := cmp.Diff(before+string(New(Options{}).AppendLine(nil, Packet{Time: stamp(i), Data: p.data, WireLen: len(p.data)})), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.name, diff)
		}
	}
}

// FuzzAppendLine gives AppendLine any bytes with any claim about their length. It must not panic
// and must write whole lines, of which all but the first are indented, so that a packet can be told
// from the next one.
func FuzzAppendLine(f *testing.F) {
	for i, p := range plainPackets(f) {
		f.Add(p.data, uint16(0), int8(i%4-1))
		f.Add(p.data[:len(p.data)*3/4], uint16(len(p.data)/4), int8(i%4-1))
	}
	// An option of length 0 must not be printed forever.
	solicitation := append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0, 0)
	f.Add(frame(f, true, 0x86dd, ip6(58), gopacket.Payload(solicitation)), uint16(0), int8(1))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, verbosity int8) {
		out := New(Options{Verbose: int(verbosity)}).AppendLine(nil, Packet{Time: stamp(0), Data: data, WireLen: len(data) + int(cut)})
		text, whole := strings.CutSuffix(string(out), "\n")
		if !whole {
			t.Fatalf("no newline at the end of %q", text)
		}
		for i, line := range strings.Split(text, "\n") {
			if i > 0 && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "    ") {
				t.Errorf("line %d of %q is not indented", i, text)
			}
			if i := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }); i >= 0 {
				t.Errorf("%q has a byte for no terminal", line)
			}
			if strings.Contains(line, "%!") {
				t.Errorf("%q: a format and its values do not match", line)
			}
			if strings.Contains(line, " -") && !strings.Contains(line, " - ") {
				t.Errorf("%q has a negative length", line)
			}
		}
	})
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
