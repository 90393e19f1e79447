package read_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The ends of a conversation, with addresses that do not occur by chance.
var secretPath = testnet.Path{
	Src: testnet.Endpoint{MAC: net.HardwareAddr{0x0a, 0x7e, 0x91, 0xb3, 0xc5, 0xd7}, IPv4: net.IP{203, 0, 113, 77}, IPv6: net.ParseIP("2001:db8:7e91:b3c5::d7a9")},
	Dst: testnet.Endpoint{MAC: net.HardwareAddr{0x0e, 0x93, 0xa4, 0xb6, 0xc8, 0xda}, IPv4: net.IP{198, 51, 100, 99}, IPv6: net.ParseIP("2001:db8:93a4:b6c8::dab1")},
}

// secretFrames are packets that have these addresses in their headers, in ICMP errors, in tunnels
// and in payloads.
func secretFrames() [][]byte {
	p := secretPath
	payload := fmt.Appendf(nil, "from %v to %v, %v", p.Src.IPv4, p.Dst.IPv6, p.Src.MAC)
	udp := p.UDP(1000, 53, payload)
	inner := udp[14:]
	tunnel := func(typ layers.EthernetType, ls ...gopacket.SerializableLayer) []byte {
		b := gopacket.NewSerializeBuffer()
		all := append([]gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: p.Src.MAC, DstMAC: p.Dst.MAC, EthernetType: typ}}, ls...)
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
			panic(err)
		}
		return slices.Clone(b.Bytes())
	}
	ip := func(protocol layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 9, SrcIP: p.Src.IPv4, DstIP: p.Dst.IPv4, Protocol: protocol}
	}
	const v4 = layers.EthernetTypeIPv4
	return [][]byte{
		p.ARPRequest(), p.ARPReply(), p.ICMPEcho(false, 1), p.ICMPv6Echo(true, 2), udp, p.UDPv6(1000, 53, payload),
		p.TCP(testnet.Segment{SrcPort: 1000, DstPort: 80, Payload: payload}), p.TCPv6(testnet.Segment{SrcPort: 1000, DstPort: 80, Payload: payload}),
		testnet.VLAN(udp, 5), testnet.QinQ(udp, 5, 6), p.UDP(1000, 4789, slices.Concat([]byte{8, 0, 0, 0, 0, 0, 7, 0}, udp)),
		tunnel(v4, ip(layers.IPProtocolIPv4), gopacket.Payload(inner)), tunnel(v4, ip(layers.IPProtocolIPv6), gopacket.Payload(p.UDPv6(1, 2, payload)[14:])),
		tunnel(v4, ip(layers.IPProtocolGRE), &layers.GRE{Protocol: v4}, gopacket.Payload(inner)),
		tunnel(v4, ip(layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 1)}, gopacket.Payload(inner)),
		tunnel(layers.EthernetTypeMPLSUnicast, &layers.MPLS{Label: 9, StackBottom: true}, gopacket.Payload(inner)),
		tunnel(layers.EthernetTypeLinkLayerDiscovery, gopacket.Payload(payload)),
	}
}

// checkNoSecret searches output for the addresses: as bytes, and as text.
func checkNoSecret(t *testing.T, where string, data []byte) {
	t.Helper()
	lower := bytes.ToLower(data)
	for _, e := range []testnet.Endpoint{secretPath.Src, secretPath.Dst} {
		for _, needle := range [][]byte{
			e.MAC, e.IPv4, e.IPv6, []byte(e.MAC.String()), []byte(strings.ReplaceAll(e.MAC.String(), ":", "")), []byte(e.IPv4.String()), []byte(e.IPv6.String()),
			slices.Concat(e.IPv6[4:8]), []byte(e.IPv6.String()[8:]),
		} {
			if bytes.Contains(data, needle) || bytes.Contains(lower, needle) {
				t.Errorf("%s has %q", where, needle)
			}
		}
	}
	if len(data) == 0 {
		t.Errorf("%s is empty", where)
	}
}

// secretFile is a pcapng file with the addresses in every place where a file can have them.
func secretFile(frames [][]byte) []byte {
	src := secretPath.Src
	text := fmt.Sprintf("captured on %v by host %v, %v", src.MAC, src.IPv4, src.IPv6)
	b := pcapng.AppendSection(nil, &pcapng.Section{Hardware: text, OS: text, Application: text, Comment: text})
	b = pcapng.AppendInterface(b, &pcapng.Interface{
		Name: "rpcap://" + src.IPv4.String() + "/eth9", Description: text, Filter: "host " + src.IPv4.String(), MAC: src.MAC, LinkType: pcapng.Ethernet, Comment: text,
		Hardware: text, OS: text,
	})
	b = pcapng.AppendInterface(b, &pcapng.Interface{Name: "eth5", MAC: src.MAC, LinkType: pcapng.Ethernet})
	b = appendRaw(b, 4, slices.Concat([]byte{1, 0, 6, 0}, src.IPv4, []byte("a\x00\x00\x00\x00\x00\x00\x00"))) // names
	b = appendRaw(b, 0x4711, append(slices.Clone(src.IPv4), src.IPv6...))
	for i, frame := range frames {
		b = pcapng.AppendPacket(b, &pcapng.Packet{
			Interface: uint32(i % 2), Time: uint64(1_700_000_000_000_000_000 + i), Data: frame, WireLen: uint32(len(frame)), ID: uint64(i), Queue: 3,
			Fields: pcapng.HasID | pcapng.HasQueue | pcapng.HasHash, Hash: 0xdeadbeef, Flags: pcapng.Inbound, Comments: []string{text},
			Remarks: pcapng.Remarks{Weight: 1000},
		})
	}
	return pcapng.AppendStatistics(b, &pcapng.Statistics{Received: 70, Dropped: 3, Delivered: 60, Comments: []string{text}})
}

func appendRaw(b []byte, typ uint32, body []byte) []byte {
	le := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
	n := uint32(12 + len(body))
	return slices.Concat(b, le(typ), le(n), body, le(n))
}

// readPackets returns the output of read --json for each packet in a file.
func readPackets(t *testing.T, file string, flags ...string) (all []systest.PacketKeys) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(systest.MustRead(t, append(flags, "--json", file)...))); d.More(); {
		d.DisallowUnknownFields()
		var k systest.PacketKeys
		testnet.Must(t, d.Decode(&k))
		all = append(all, k)
	}
	return all
}

// read --anonymize leaves no address in any output, keeps every packet with its facts and the
// statistics, reports what was anonymized, and maps equally in every run.
func TestAnonymizeRead(t *testing.T) {
	t.Parallel()
	key, frames := systest.NewKey(t), secretFrames()
	in := writeBytes(t, secretFile(frames))
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"out.pcapng", "again.pcapng", "out.pcap", "out.json"} {
		path := filepath.Join(dir, name)
		files = append(files, path)
		stdout, stderr, status := systest.RunRead(t, nil, "--anonymize", key, "-w", path, in)
		if status != 0 || stdout != "" {
			t.Fatalf("%s: exit status %d: %s%s", name, status, stdout, stderr)
		}
		if strings.HasSuffix(name, ".pcapng") && (!strings.Contains(stderr, "omitted the comments of the files") || !strings.Contains(stderr, "1 blocks of type 18193")) {
			t.Errorf("%s: %s", name, stderr)
		}
		checkNoSecret(t, name, systest.ReadBytes(t, path))
	}
	out := systest.ReadBytes(t, files[0])
	if again := systest.ReadBytes(t, files[1]); !bytes.Equal(out, again) {
		t.Error("another time the file is another one")
	}
	if !bytes.Contains(out, []byte("anonymized: addresses of IPv4 and IPv6 are mapped by Crypto-PAn (AES-128, the key's fingerprint is ")) ||
		bytes.Contains(out, []byte("0123456789abcdeffedcba98")) || bytes.Contains(out, []byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) {
		t.Error("the file does not say that it was anonymized, or has the key")
	}
	for _, args := range [][]string{{}, {"-v", "-e", "-XX"}, {"--json"}, {"--format", "json"}, {"-w", "-"}} {
		stdout, _, status := systest.RunRead(t, nil, append(append([]string{"--anonymize", key}, args...), in)...)
		checkNoSecret(t, fmt.Sprint(args), []byte(stdout))
		if status != 0 {
			t.Errorf("%v: exit status %d", args, status)
		}
	}
	before, after := readPackets(t, in), readPackets(t, files[0])
	for i := range after {
		a, b := &before[i], &after[i]
		if a.Time != b.Time || a.Length != b.Length || *a.ID != *b.ID || a.Weight != b.Weight || b.Weight != 1000 || len(b.Comments) != 1 {
			t.Errorf("packet %d: %+v, before %+v", i, b, a)
		}
	}
	if len(after) != len(frames) {
		t.Errorf("%d packets, want %d", len(after), len(frames))
	}
	for _, words := range []string{"70 ", " 3 ", "60 "} {
		if stats := systest.MustRead(t, "--stats", files[0]); !strings.Contains(stats, words) {
			t.Errorf("the statistics have no %q: %s", words, stats)
		}
	}
	if diff := cmp.Diff([]string{"interface0", "eth5"}, []string{after[0].Interface, after[1].Interface}); diff != "" {
		t.Errorf("interfaces: %s", diff)
	}
	merged := filepath.Join(dir, "merged.pcapng")
	if _, stderr, status := systest.RunRead(t, nil, "--anonymize", key, "-w", merged, in, linkFile(t, pcapng.Ethernet, frames...)); status != 0 {
		t.Errorf("merged: exit status %d: %s", status, stderr)
	}
	checkNoSecret(t, "two files in one", systest.ReadBytes(t, merged))
	if n := len(readPackets(t, merged)); n != 2*len(frames) {
		t.Errorf("two files have %d packets, want %d", n, 2*len(frames))
	}
	url, received := receive(t)
	if _, stderr, status := systest.RunRead(t, nil, "--anonymize", key, "-w", url, in); status != 0 {
		t.Errorf("-w tcp://: exit status %d: %s", status, stderr)
	}
	checkNoSecret(t, "-w tcp://", <-received)
	// A filter matches the original packets.
	stdout, _, _ := systest.RunRead(t, nil, "--anonymize", key, "-q", in, "src host", secretPath.Src.IPv4.String())
	if n := strings.Count(stdout, "\n"); n < 8 || n >= len(frames) {
		t.Errorf("%d packets of the host: %s", n, stdout)
	}
}

// A capture with --anonymize leaves no address in files, lines, streams and recordings.
func TestAnonymizeCapture(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	key, frames := systest.NewKey(t), secretFrames()
	host := secretPath.Src.IPv4.String()
	filter := "host " + host + " or not host " + host
	dir := t.TempDir()
	one, two, three := filepath.Join(dir, "out.pcapng"), filepath.Join(dir, "out.pcap"), filepath.Join(dir, "out.json")
	printed, err := os.Create(filepath.Join(dir, "printed"))
	testnet.Must(t, err)
	defer printed.Close()
	p := systest.Listening(t, pair.Rx, printed, "-i", pair.RxName, "--anonymize", key, "-w", one, "-w", two, "-w", three, "--serve", ":0", "--print", "-U", "-v", "-e", "-XX",
		"--count", "--json", filter)
	client, streamed := systest.Join(t, pair, p)
	testnet.Send(t, pair, frames...)
	s := systest.Account(t, p.Interrupt())
	rest, err := io.ReadAll(client)
	testnet.Must(t, err)
	streamed = append(streamed, rest...)
	if s.Captured != uint64(len(frames)) || s.Lost != 0 || s.Seen != s.FilteredOut+s.NotSampled+s.Lost+s.Invalid+s.Captured {
		t.Errorf("account: %+v", s)
	}
	for _, path := range []string{one, two, three, printed.Name()} {
		data := systest.ReadBytes(t, path)
		checkNoSecret(t, path, data)
		if bytes.Contains(data, []byte(`"protocols"`)) {
			t.Errorf("%s has the counters, whose object names the interface and the filter", path)
		}
		if bytes.Contains(data, []byte(filter)) || bytes.Contains(data, slices.Concat([]byte{6, 0}, testnet.RxEndpoint.MAC)) {
			t.Errorf("%s has the filter or the interface's address", path)
		}
	}
	checkNoSecret(t, "the stream", streamed)
	if n := bytes.Count(streamed, []byte("anonymized: ")); n != 1 || len(streamed) < len(frames)*60 {
		t.Errorf("the stream of %d bytes says %d times that it was anonymized", len(streamed), n)
	}
	if packets, r := systest.ReadFile(t, one); len(packets) != len(frames) || !strings.Contains(r.SectionInfo().Comment, "anonymized: ") ||
		strings.Contains(r.SectionInfo().Comment, "command line: ") {
		t.Errorf("%d packets, %q", len(packets), r.SectionInfo().Comment)
	} else {
		kept := 0
		for _, one := range packets {
			kept += len(one.Data)
		}
		if uint64(kept) != s.Bytes {
			t.Errorf("%d bytes are in the file, and %d in the account", kept, s.Bytes)
		}
	}
	recorded := filepath.Join(dir, "recorded.pcapng")
	p = systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--anonymize", key, "-w", recorded, "--ring", "1M", "--trigger", "end", "--sample", "auto", "--json")
	testnet.Send(t, pair, frames...)
	p.Interrupt()
	data := systest.ReadBytes(t, filepath.Join(dir, "recorded-1.pcapng"))
	if checkNoSecret(t, "the recording", data); !bytes.Contains(data, []byte("anonymized: ")) {
		t.Error("the recording does not say that it was anonymized")
	}
}

// Flags whose output would disclose addresses are refused, and so is a key that others may read.
func TestAnonymizeRefuses(t *testing.T) {
	t.Parallel()
	key := systest.NewKey(t)
	in := writeBytes(t, secretFile(secretFrames()))
	open := systest.NewKey(t)
	testnet.Must(t, os.Chmod(open, 0o644))
	for _, test := range []struct{ args, want string }{
		{"-i lo --duration 1s --anonymize " + key + " --flows 3", "--flows and --anonymize: "},
		{"-i lo --duration 1s --anonymize " + key + " -w sflow://127.0.0.1", "--anonymize and -w sflow://: "},
		{"-i lo --duration 1s --anonymize " + key + " --ring 1M -w x.pcapng --trigger tcp", `--trigger "tcp" and --anonymize: `},
		{"read " + in + " --anonymize " + open, "by its mode 0644: chmod 600 " + open},
		{"read --tls-cert " + in + " --tls-key " + open + " tcp://127.0.0.1:1", "--tls-key " + open + ": key " + open + ": others "},
		{"-i lo --duration 1s --anonymize /nowhere/key", "no such file or directory; to make one: (umask 77; head -c 32 /dev/urandom > /nowhere/key)"},
		{"-i lo --duration 1s --anonymize " + in, "64 hexadecimal digits; to make one: (umask 77; head -c 32 /dev/urandom > key)"},
		{"read --stats --anonymize " + key + " " + in, "--stats, --report and --follow"},
		{"read --follow --anonymize " + key + " " + in, "--stats, --report and --follow"},
		{"read -w sflow://127.0.0.1 --anonymize " + key + " " + in, "--anonymize and -w sflow://: "},
	} {
		text, err := systest.Command(strings.Fields(test.args)...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), test.want) {
			t.Errorf("%s: %v: %s", test.args, err, text)
		}
	}
}
