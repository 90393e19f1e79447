package pcapng

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"go/token"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oldpcapgo "github.com/google/gopacket/pcapgo"
	"github.com/gopacket/gopacket/pcapgo"
)

// sampleTime is not a whole second, and its upper and lower half have no byte in common.
const sampleTime = 1700000000123456789

// frames are two UDP packets, of which one needs padding and one does not.
var frames = [][]byte{
	udpFrame("hello"),
	udpFrame("hello!"),
}

// udpFrame builds a frame by hand: 10.0.0.1.4000 > 10.0.0.2.5000. The checksums are 0.
func udpFrame(payload string) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}
	b = append(b, 0x45, 0, 0, byte(28+len(payload)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	b = binary.BigEndian.AppendUint16(b, 4000)
	b = binary.BigEndian.AppendUint16(b, 5000)
	b = append(b, 0, byte(8+len(payload)), 0, 0)
	return append(b, payload...)
}

// sampleNames are names of addresses, for the file that other readers read.
var sampleNames = []Name{{netip.MustParseAddr("10.0.0.1"), "default/web-1"}, {netip.MustParseAddr("2001:db8::1"), "default/web-1"}}

// samplePackets are the packets of sampleFile: each at the entry, and at the exit with a verdict.
func samplePackets() (packets []Packet) {
	for i, f := range frames {
		entry := Packet{
			Time: sampleTime + uint64(i)*1000, WireLen: uint32(len(f)), Data: f, Flags: Inbound | Unicast,
			Queue: 3, ID: uint64(41 + i), Dropped: uint64(i * 7), Hash: 0x11223344, Fields: HasQueue | HasID | HasHash,
		}
		exit := Packet{
			Interface: 1, Time: entry.Time + 500, WireLen: uint32(len(f)) + 1400, Data: f, Flags: Inbound | Broadcast,
			Queue: 3, ID: entry.ID, Verdict: uint32(1 + i), Fields: HasQueue | HasID | HasVerdict,
		}
		packets = append(packets, entry, exit)
	}
	return packets
}

// sampleFile is a file as xdpcap writes it: entry and exit of the same interface, all options, and
// names of addresses.
func sampleFile(names ...Name) []byte {
	b := AppendSection(nil, &Section{Hardware: "x86_64", OS: "Linux 6.12", Application: "xdpcap test", Comment: "grüße"})
	for i, name := range []string{"eth0@fentry", "eth0@fexit"} {
		described := &Interface{
			Name: name, Description: "an interface", Hardware: "veth", OS: "Linux",
			MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Speed: 10e9, LinkType: 1, SnapLen: 96,
		}
		if i == 0 {
			described.Filter = "udp port 5000"
		} else {
			described.Program = []Instruction{{Op: 0x28, K: 12}, {Op: 0x15, Jf: 1, K: 0x800}, {Op: 6, K: 96}, {Op: 6}}
		}
		b = AppendInterface(b, described)
	}
	b = AppendNames(b, names)
	for _, p := range samplePackets() {
		b = AppendPacket(b, &p)
	}
	for i := range uint32(2) {
		b = AppendStatistics(b, &Statistics{
			Interface: i, Time: sampleTime + 9e9, Start: sampleTime - 1e9, End: sampleTime + 8e9,
			Received: 11, Dropped: 8, Accepted: 10, OSDropped: 7, Delivered: 2, Comments: []string{"end"},
		})
	}
	return b
}

// TestGopacket reads everything back with the reader of gopacket that is maintained.
func TestGopacket(t *testing.T) {
	t.Parallel()
	r, err := pcapgo.NewNgReader(bytes.NewReader(sampleFile(sampleNames...)), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSection := pcapgo.NgSectionInfo{Hardware: "x86_64", OS: "Linux 6.12", Application: "xdpcap test", Comment: "grüße"}
	if diff := cmp.Diff(wantSection, r.SectionInfo()); diff != "" {
		t.Errorf("section (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(samplePackets(), readAll(t, r)); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
	if r.NInterfaces() != 2 {
		t.Fatalf("%d interfaces", r.NInterfaces())
	}
	i, _ := r.Interface(0)
	wantInterface := pcapgo.NgInterface{
		Name: "eth0@fentry", Description: "an interface", Filter: "udp port 5000", OS: "Linux", LinkType: 1,
		TimestampResolution: 9, SnapLength: 96,
		Statistics: pcapgo.NgInterfaceStatistics{
			LastUpdate: time.Unix(0, sampleTime+9e9).UTC(), StartTime: time.Unix(0, sampleTime-1e9).UTC(),
			EndTime: time.Unix(0, sampleTime+8e9).UTC(), Comment: "end", PacketsReceived: 11,
			PacketsDropped: 8,
		},
	}
	if diff := cmp.Diff(wantInterface, i, cmp.FilterPath(unexported, cmp.Ignore())); diff != "" {
		t.Errorf("interface (-want +got):\n%s", diff)
	}
}

// unexported selects the reader's own state inside the structs that it returns.
func unexported(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && !token.IsExported(f.Name())
}

// TestOldGopacket reads our files with the unmaintained original of gopacket, the oldest reader
// that must still open them.
func TestOldGopacket(t *testing.T) {
	t.Parallel()
	r, err := oldpcapgo.NewNgReader(bytes.NewReader(sampleFile(sampleNames...)), oldpcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		data, ci, err := r.ReadPacketData()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(ci.InterfaceIndex, ci.Timestamp.UnixNano(), ci.Length, len(data)))
	}
	want := []string{
		"0 1700000000123456789 47 47", "1 1700000000123457289 1447 47",
		"0 1700000000123457789 48 48", "1 1700000000123458289 1448 48",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
}

// tool runs a program on the sample file, given as stdin, and returns its stdout. A warning on
// stderr is logged. Without the program the test is skipped, on CI it fails.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s must be installed on CI: %v", name, err)
		}
		t.Skipf("no %s: %v", name, err)
	}
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(sampleFile(sampleNames...)), &stderr
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	if stderr.Len() > 0 {
		t.Logf("%s: %s", name, &stderr)
	}
	return string(out)
}

func TestTshark(t *testing.T) {
	t.Parallel()
	args := []string{"-r", "-", "-N", "n", "-T", "fields"} // with the names of addresses that the file has
	for _, f := range []string{
		"frame.time_epoch", "frame.interface_name", "frame.interface_description", "frame.interface_queue",
		"frame.packet_id", "frame.drop_count", "frame.verdict.ebpf_xdp", "frame.packet_flags_direction",
		"frame.packet_flags_reception_type", "frame.len", "frame.cap_len", "_ws.col.Source", "ip.src_host", "ip.dst_host",
	} {
		args = append(args, "-e", f)
	}
	got := strings.ReplaceAll(tool(t, "tshark", args...), "\t", " ")
	want := `
1700000000.123456789 eth0@fentry an interface 3 41   0x00000001 1 47 47 default/web-1 default/web-1 10.0.0.2
1700000000.123457289 eth0@fexit an interface 3 41  1 0x00000001 3 1447 47 default/web-1 default/web-1 10.0.0.2
1700000000.123457789 eth0@fentry an interface 3 42 7  0x00000001 1 48 48 default/web-1 default/web-1 10.0.0.2
1700000000.123458289 eth0@fexit an interface 3 42  2 0x00000001 3 1448 48 default/web-1 default/web-1 10.0.0.2
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("tshark (-want +got):\n%s", diff)
	}
}

// TestTsharkBlocks compares tshark's view of the blocks themselves: the options that no packet
// field has.
func TestTsharkBlocks(t *testing.T) {
	t.Parallel()
	got := tool(t, "tshark", "-r", "-", "-X", "read_format:MIME Files Format", "-V")
	for _, want := range []string{
		"Interface Name = eth0@fentry", "Interface Description = an interface", "MAC Address = 02:00:00:00:00:01",
		"Option: Speed = 10000000000", "Hardware = veth", "Filter", "udp port 5000",
		"Number of Received Packets = 11", "Number of Dropped Packets = 8", "Number of Accepted Packets = 10",
		"Hash Algorithm: Unknown (5)", "Hash Data: 44332211", // 4.0 has no name for Toeplitz
		"Number of Packets Dropped by OS = 7", "Number of Packets Delivered to the User = 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("tshark does not show %q", want)
		}
	}
	if strings.Contains(got, "Malformed") || strings.Contains(got, "Expert Info") {
		t.Errorf("tshark complains:\n%s", got)
	}
}

func TestCapinfos(t *testing.T) {
	t.Parallel()
	// capinfos needs a file: it seeks.
	file := filepath.Join(t.TempDir(), "sample.pcapng")
	if err := os.WriteFile(file, sampleFile(sampleNames...), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tool(t, "capinfos", "-M", file)
	for _, want := range []string{
		"Number of packets:   4\n", "Capture hardware:    x86_64\n", "Capture oper-sys:    Linux 6.12\n",
		"Capture application: xdpcap test\n", "Capture comment:     grüße\n", "Number of interfaces in file: 2\n",
		"Time precision = nanoseconds (9)\n", "Speed = 10000000000\n", "Hardware = veth\n",
		"Filter string = udp port 5000\n", "BPF filter length = 4\n", "Capture length = 96\n", "Number of stat entries = 1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("capinfos does not say %q:\n%s", want, got)
		}
	}
}

func TestTcpdump(t *testing.T) {
	t.Parallel()
	got := tool(t, "tcpdump", "--nano", "-tttt", "-nr", "-")
	want := `
2023-11-14 22:13:20.123456789 IP 10.0.0.1.4000 > 10.0.0.2.5000: UDP, length 5
2023-11-14 22:13:20.123457289 IP 10.0.0.1.4000 > 10.0.0.2.5000: UDP, length 5
2023-11-14 22:13:20.123457789 IP 10.0.0.1.4000 > 10.0.0.2.5000: UDP, length 6
2023-11-14 22:13:20.123458289 IP 10.0.0.1.4000 > 10.0.0.2.5000: UDP, length 6
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("tcpdump (-want +got):\n%s", diff)
	}
}
