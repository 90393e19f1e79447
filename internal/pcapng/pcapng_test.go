package pcapng

import (
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// unhex reads hexadecimal digits with blanks between them and comments from # to the end of the
// line.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		for _, f := range strings.Fields(line) {
			digits.WriteString(f)
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden pins every byte: code, length, padding and order of each option, and the absent ones.
func TestGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		append func(b []byte) []byte
		want   string
	}{
		{"section, bare", func(b []byte) []byte { return AppendSection(b, &Section{}) }, `
			0a0d0d0a 1c000000
			4d3c2b1a 0100 0000 ffffffffffffffff
			1c000000`},
		{"section, whole", func(b []byte) []byte {
			return AppendSection(b, &Section{Hardware: "x86", OS: "Linux", Application: "xdpcap 1", Comment: "é"})
		}, `
			0a0d0d0a 48000000
			4d3c2b1a 0100 0000 ffffffffffffffff
			0100 0200 c3a9 0000
			0200 0300 783836 00
			0300 0500 4c696e7578 000000
			0400 0800 7864706361702031
			0000 0000
			48000000`},
		{"interface, bare", func(b []byte) []byte { return AppendInterface(b, &Interface{}) }, `
			01000000 20000000
			0000 0000 00000000
			0900 0100 09 000000   # if_tsresol
			0000 0000
			20000000`},
		{"interface, whole", func(b []byte) []byte {
			return AppendInterface(b, &Interface{
				Name: "eth0", Description: "d", Hardware: "veth", Filter: "tcp", OS: "Linux", Comment: "c",
				MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, Speed: 10e9, LinkType: 1, SnapLen: 96,
			})
		}, `
			01000000 6c000000
			0100 0000 60000000
			0100 0100 63 000000
			0200 0400 65746830
			0300 0100 64 000000
			0600 0600 020000000009 0000
			0800 0800 00e40b5402000000
			0900 0100 09 000000
			0b00 0400 00 746370
			0c00 0500 4c696e7578 000000
			0f00 0400 76657468
			0000 0000
			6c000000`},
		{"interface, filter program", func(b []byte) []byte {
			return AppendInterface(b, &Interface{Program: []Instruction{{Op: 0x15, Jt: 1, Jf: 2, K: 0x800}, {Op: 6, K: 0xffffffff}}})
		}, `
			01000000 38000000
			0000 0000 00000000
			0900 0100 09 000000
			0b00 1100 01 1500 01 02 00080000 0600 00 00 ffffffff 000000
			0000 0000
			38000000`},
		{"names", func(b []byte) []byte {
			return AppendNames(b, []Name{
				{netip.MustParseAddr("10.1.0.2"), "a/b"},
				{netip.Addr{}, "nobody"},
				{netip.MustParseAddr("2001:db8::1"), "é\x00x"},
				{netip.MustParseAddr("::ffff:10.1.0.3"), ""},
			})
		}, `
			04000000 40000000
			0100 0800 0a010002 612f6200
			0200 1300 20010db8000000000000000000000001 c3a900 00
			0100 0500 0a010003 00 000000
			0000 0000
			40000000`},
		{"no names", func(b []byte) []byte { return AppendNames(b, []Name{{Name: "a"}}) }, ""},
		{"packet, bare", func(b []byte) []byte {
			return AppendPacket(b, &Packet{Interface: 1, Time: 0x1122334455667788, WireLen: 1500, Data: []byte{1, 2, 3, 4}})
		}, `
			06000000 24000000
			01000000 44332211 88776655 04000000 dc050000
			01020304
			24000000`},
		{"packet, empty", func(b []byte) []byte { return AppendPacket(b, &Packet{}) }, `
			06000000 20000000
			00000000 00000000 00000000 00000000 00000000
			20000000`},
		{"packet, whole", func(b []byte) []byte {
			return AppendPacket(b, &Packet{
				Interface: 1, Time: 0x1122334455667788, WireLen: 5, Data: []byte{1, 2, 3, 4, 5}, Flags: Inbound | Broadcast,
				Dropped: 7, ID: 0x0102030405060708, Queue: 3, Verdict: 0xaabbccdd, Hash: 0x99887766,
				Fields: HasQueue | HasID | HasVerdict | HasHash, Comments: []string{"c"},
			})
		}, `
			06000000 78000000
			01000000 44332211 88776655 05000000 05000000
			0102030405 000000
			0100 0100 63 000000
			0200 0400 0d000000
			0300 0500 05 66778899 000000
			0400 0800 0700000000000000
			0500 0800 0807060504030201
			0600 0400 03000000
			0700 0900 02 ddccbbaa00000000 000000
			0000 0000
			78000000`},
		{"packet, zeros that are known", func(b []byte) []byte {
			return AppendPacket(b, &Packet{Fields: HasQueue | HasID | HasVerdict})
		}, `
			06000000 48000000
			00000000 00000000 00000000 00000000 00000000
			0500 0800 0000000000000000
			0600 0400 00000000
			0700 0900 02 0000000000000000 000000
			0000 0000
			48000000`},
		{"statistics", func(b []byte) []byte {
			return AppendStatistics(b, &Statistics{
				Interface: 1, Time: 0x1122334455667788, Start: 0x100000002, End: 0x300000004,
				Received: 10, Dropped: 2, Accepted: 9, OSDropped: 0, Delivered: 8, Comments: []string{"c"},
			})
		}, `
			05000000 78000000
			01000000 44332211 88776655
			0100 0100 63 000000
			0200 0800 01000000 02000000
			0300 0800 03000000 04000000
			0400 0800 0a00000000000000
			0500 0800 0200000000000000
			0600 0800 0900000000000000
			0700 0800 0000000000000000
			0800 0800 0800000000000000
			0000 0000
			78000000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The bytes in the slice must stay, and the padding must not be old bytes beyond its
			// end.
			dirty := []byte(strings.Repeat("x", 4096))
			got := tt.append(dirty[:3])
			if diff := cmp.Diff("xxx"+string(unhex(t, tt.want)), string(got)); diff != "" {
				t.Errorf("block (-want +got):\n%s\n% x", diff, got[3:])
			}
		})
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		max      int
		want     string
	}{
		{"fits", "abc", 3, "abc"},
		{"cut", "abcd", 3, "abc"},
		{"between characters", "aé", 3, "aé"},
		{"within two bytes", "aé", 2, "a"},
		{"within four bytes", "a😀b", 4, "a"},
		{"invalid", "a\xffb", 9, "a\ufffdb"},
		{"longer once valid", "a\xff", 2, "a"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, text(tt.in, tt.max)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestLongStrings writes strings whose length does not fit in 16 bits. If they were not cut, a
// reader would misread every later option.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	long, odd := strings.Repeat("é", 40000), "a"+strings.Repeat("é", 40000)
	blocks := map[string][]byte{
		"section":    AppendSection(nil, &Section{Comment: long, Hardware: long, OS: long, Application: long}),
		"interface":  AppendInterface(nil, &Interface{Comment: long, Name: odd, Filter: odd, Hardware: long}),
		"program":    AppendInterface(nil, &Interface{Program: make([]Instruction, 8192), OS: long}),
		"packet":     AppendPacket(nil, &Packet{Comments: []string{long}}),
		"statistics": AppendStatistics(nil, &Statistics{Comments: []string{long}}),
	}
	for name, b := range blocks {
		options := map[string]int{"section": 24, "interface": 16, "program": 16, "packet": 28, "statistics": 20}[name]
		if n := le.Uint32(b[4:]); int(n) != len(b) || le.Uint32(b[len(b)-4:]) != n || n%4 != 0 {
			t.Fatalf("%s: lengths %d and %d in %d bytes", name, n, le.Uint32(b[len(b)-4:]), len(b))
		}
		for o := b[options : len(b)-4]; ; {
			code, n := le.Uint16(o), int(le.Uint16(o[2:]))
			v := o[4 : 4+n]
			if n > 8 && !utf8.Valid(v) {
				t.Errorf("%s: option %d ends within a character", name, code)
			}
			if code == 0 {
				break
			}
			o = o[4+(n+3)&^3:]
		}
	}
}

// Allocations are counted for the whole process, so this runs alone.
func TestAllocs(t *testing.T) {
	buf := make([]byte, 0, 64<<10)
	p := &Packet{ // every option except a comment
		Interface: 1, Time: sampleTime, WireLen: 1500, Data: make([]byte, 61), Flags: Inbound | Unicast,
		Dropped: 1, ID: 42, Queue: 3, Verdict: 2, Hash: 7, Fields: HasQueue | HasID | HasVerdict | HasHash,
	}
	mac := []byte{2, 0, 0, 0, 0, 1}
	source := NewTemplate(1, true, true, Inbound, mac)
	s, i := &Section{OS: "Linux", Comment: "é"}, &Interface{Name: "eth0", Filter: "tcp", MAC: mac, Speed: 1}
	st := &Statistics{Comments: []string{"end"}}
	tests := map[string]func(){
		"packet":     func() { source.AppendPacket(buf, p) },
		"section":    func() { AppendSection(buf, s) },
		"interface":  func() { AppendInterface(buf, i) },
		"statistics": func() { AppendStatistics(buf, st) },
	}
	for name, f := range tests {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	// Without room: one growth, because AppendPacket computes its size first.
	if n := testing.AllocsPerRun(100, func() { AppendPacket(nil, p) }); n > 1 {
		t.Errorf("packet into an empty slice: %v allocations", n)
	}
	if n := len(AppendPacket(nil, p)); n != len(p.Data)+maxPacketOverhead {
		t.Errorf("a packet with all options has %d bytes, room was made for %d", n, len(p.Data)+maxPacketOverhead)
	}
}
