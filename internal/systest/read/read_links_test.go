package read_test

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// pcapOf returns a file with one packet of the given link type.
func pcapOf(linkType uint16, packet ...[]byte) []byte {
	data := slices.Concat(packet...)
	return pcapng.AppendPcapPacket(pcapng.AppendPcapHeader(nil, pcapng.PcapNanoseconds, 65535, linkType), pcapng.PcapNanoseconds, 5, uint32(len(data)), data)
}

// Packets of other link types than Ethernet have the data of their headers in lines and in JSON.
func TestReadLinkHeaders(t *testing.T) {
	t.Parallel()
	udp := testnet.UDPFrame(80, 0)
	ip, mac := udp[14:], "\x02\x00\x00\x00\x00\x09\x00\x00"
	sll2 := func(kind byte) []byte {
		return pcapOf(276, []byte{8, 0, 0, 0, 0, 0, 0, 3, 0, 1, kind, 6}, []byte(mac), ip)
	}
	for _, test := range []struct {
		name            string
		file            []byte
		line            string
		ifindex         float64
		direction, from string // from is a MAC address
		hasAddress      bool
	}{
		{"SLL2 in", sll2(0), "if3   In  IP ", 3, "in", "", true},
		{"SLL2 out", sll2(4), "if3   Out IP ", 3, "out", "", true},
		{"SLL2 multicast", sll2(2), "if3   M   IP ", 3, "in", "", true},
		{"SLL2 unknown", sll2(7), "if3   ?   IP ", 3, "", "", true},
		{"SLL out", pcapOf(113, []byte{0, 4, 0, 1, 0, 6}, []byte(mac), []byte{8, 0}, ip), "IP ", 0, "out", "", true},
		{"null", pcapOf(0, []byte{2, 0, 0, 0}, ip), "IP ", 0, "", "", true},
		{"null of another byte order", pcapOf(0, []byte{0, 0, 0, 2}, ip), "IP ", 0, "", "", true},
		{"loop", pcapOf(108, []byte{0, 0, 0, 2}, ip), "IP ", 0, "", "", true},
		{"802.11", pcapOf(105, []byte{0x80, 0, 0, 0}, []byte("\xff\xff\xff\xff\xff\xff"), []byte(mac[:6]), []byte(mac[:6]), []byte{0, 0}),
			"802.11 Beacon, 02:00:00:00:00:09 > ff:ff:ff:ff:ff:ff, length 24", 0, "", "02:00:00:00:00:09", false},
		{"radiotap", pcapOf(127, []byte{0, 0, 8, 0, 0, 0, 0, 0, 0xd4, 0, 0, 0}, []byte(mac[:6])), "802.11 Acknowledgment, > 02:00:00:00:00:09, length 18", 0, "", "", false},
	} {
		in := writeBytes(t, test.file)
		filter := "udp port 9999"
		if test.ifindex != 0 {
			filter = "ifindex 3 and not ifindex 4 and " + filter
		}
		filtered, stderr, status := systest.RunRead(t, nil, "-t", in, filter)
		if known := status == 0 && strings.HasPrefix(filtered, test.line); known != test.hasAddress {
			t.Errorf("%s: with a filter: exit status %d: %s%s", test.name, status, filtered, stderr)
		}
		if line := systest.MustRead(t, "-t", in); !strings.HasPrefix(line, test.line) {
			t.Errorf("%s: %s", test.name, line)
		}
		var got map[string]any
		testnet.Must(t, json.Unmarshal([]byte(systest.MustRead(t, "--json", in)), &got))
		text := func(key string) string { s, _ := got[key].(string); return s }
		index, _ := got["ifindex"].(float64)
		if index != test.ifindex || text("direction") != test.direction || text("source_mac") != test.from || (text("source") != "") != test.hasAddress {
			t.Errorf("%s: JSON has %v", test.name, got)
		}
	}
}

// A packet without a time has dashes in lines, and null in JSON. In a format that requires a time,
// it gets the time of the packet before.
func TestReadUntimed(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	b = pcapng.AppendInterface(b, &pcapng.Interface{LinkType: pcapng.Ethernet})
	frame := testnet.UDPFrame(80, 0)
	b = pcapng.AppendPacket(b, &pcapng.Packet{Time: 1e9, WireLen: uint32(len(frame)), Data: frame})
	size := uint32(16 + len(frame) + -len(frame)&3)
	for _, n := range []uint32{3, size, uint32(len(frame))} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = append(append(b, frame...), make([]byte, -len(frame)&3)...)
	in := writeBytes(t, binary.LittleEndian.AppendUint32(b, size))
	for flag, want := range map[string]string{
		"-#": "    2  --:--:--.------ IP", "--nano": "--:--:--.--------- IP", "-t": "IP", "-tt": "----------.------ IP", "-ttt": " --:--:--.------ IP",
		"-tttt": "---------- --:--:--.------ IP",
	} {
		lines := strings.Split(systest.MustRead(t, flag, in), "\n")
		if !strings.HasPrefix(lines[1], want) || strings.HasPrefix(lines[0], want) && flag != "-t" {
			t.Errorf("%s: %q", flag, lines)
		}
	}
	var times []any
	for line := range strings.Lines(systest.MustRead(t, "--format", "json", in)) {
		var keys map[string]any
		testnet.Must(t, json.Unmarshal([]byte(line), &keys))
		times = append(times, keys["time"])
	}
	if diff := cmp.Diff([]any{"1970-01-01T00:00:01.000000000Z", nil}, times); diff != "" {
		t.Error(diff)
	}
	out := systest.TempFile(t)
	systest.MustRead(t, "--format", "pcap", "-w", out, in)
	if lines := systest.MustRead(t, "-tt", out); strings.Count(lines, "1.000000 ") != 2 {
		t.Error(lines)
	}
}

// ip broadcast uses the netmask of each packet's interface, if the file has it and there is no
// --netmask. A name in the filter is resolved before the first packet is read.
func TestReadNetmask(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	for _, mask := range []string{"\xff\xff\xff\x00", "\xff\xff\x00\x00", "\xff\x00\xff\x00", ""} {
		var options []byte
		if mask != "" {
			options = slices.Concat([]byte{4, 0, 8, 0, 10, 0, 0, 1}, []byte(mask), make([]byte, 4))
		}
		size := uint32(20 + len(options))
		b = binary.LittleEndian.AppendUint32(append(b, 1, 0, 0, 0), size)
		b = append(append(b, 101, 0, 0, 0, 0, 0, 0, 0), options...) // raw IP
		b = binary.LittleEndian.AppendUint32(b, size)
	}
	for i := range uint32(4) {
		for _, to := range []byte{0, 1, 255} { // 10.0.TO.255
			ip := testnet.UDPFrame(80, 0)[14:]
			copy(ip[16:], []byte{10, 0, to, 255})
			b = pcapng.AppendPacket(b, &pcapng.Packet{Interface: i, Time: 1e9, WireLen: uint32(len(ip)), Data: ip})
		}
	}
	in := writeBytes(t, b)
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{in, "ip broadcast and udp port domain or ip broadcast and proto \\udp"}, 3 + 1},
		{[]string{"--netmask", "255.255.0.0", in, "ip broadcast"}, 4},
		{[]string{"--netmask", "0.0.0.0", in, "ip broadcast"}, 0},
	} {
		if lines := systest.MustRead(t, append([]string{"-t"}, test.args...)...); strings.Count(lines, "\n") != test.want {
			t.Errorf("%q: %d lines, want %d:\n%s", test.args, strings.Count(lines, "\n"), test.want, lines)
		}
	}
}
