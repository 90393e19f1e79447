package dissect

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// tcpdump returns what tcpdump prints for each packet, of which at most snaplen bytes were kept.
func tcpdump(t *testing.T, packets []packet, snaplen int, args ...string) []string {
	t.Helper()
	return split(tcpdumpText(t, packets, snaplen, args...))
}

// tcpdumpText returns what tcpdump prints. Without tcpdump the test is skipped, on CI it fails.
func tcpdumpText(t *testing.T, packets []packet, snaplen int, args ...string) string {
	t.Helper()
	if testnet.Emulated() {
		t.Skip("asks the kernel for nothing, and takes minutes on an emulated machine")
	}
	path, err := exec.LookPath("tcpdump")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("tcpdump must be installed on CI: %v", err)
		}
		t.Skipf("no tcpdump: %v", err)
	}
	var file, stderr bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		data := p.data[:min(snaplen, len(p.data))]
		ci := gopacket.CaptureInfo{Timestamp: stamp(i), CaptureLength: len(data), Length: len(p.data)}
		if err := w.WritePacket(ci, data); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, append(args, "-nSr", "-")...)
	cmd.Stdin, cmd.Stderr = &file, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

// stamp is the time of packet i, to the microsecond.
func stamp(i int) time.Time { return time.Unix(1700000000, 1000*int64(i)) }

var lineStart = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{6} `)

// split divides output into packets: a line that begins with a time and the indented ones after it.
func split(out string) []string {
	var packets []string
	at := lineStart.FindAllStringIndex(out, -1)
	for i, m := range at {
		end := len(out)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		packets = append(packets, out[m[0]:end])
	}
	return packets
}

// lines returns the line of each packet, of which at most snaplen bytes were kept.
func lines(packets []packet, snaplen int, o Options) []string {
	return split(text(packets, snaplen, o))
}

func text(packets []packet, snaplen int, o Options) string {
	d := New(o)
	var out []byte
	for i, p := range packets {
		out = d.AppendLine(out, Packet{Time: stamp(i), Data: p.data[:min(snaplen, len(p.data))], WireLen: len(p.data)})
	}
	return string(out)
}

// differs lists the packets whose lines are not those of tcpdump with a flag, and why.
var differs = []struct{ names, flag, why string }{
	{"^icmp (unreachable|time exceeded|reassembly)", "-v", "it shows the packet that the error is about"},
	{"^icmp6 .*(solicitation|advertisement|too big|echo|reply|report)", "-v", "it shows options, and a length before them or none"},
	{"^arp", "-v", "it shows the sizes of the addresses"},
	{"^(ip options|hop by hop|destination options)", "-v", "it shows the options"},
	{"^gre", "-v", "it shows the flags, and what is inside on a line of its own"},
	{"^(esp|sctp)", "-q -n -v", "it decodes more"},
}

func isKnown(name, flag string) bool {
	for _, d := range differs {
		if regexp.MustCompile(d.names).MatchString(name) && slices.Contains(strings.Fields(d.flag), flag) {
			return true
		}
	}
	return false
}

// sums matches what tcpdump prints about checksums, because dissect prints nothing about them.
var sums = regexp.MustCompile(`, cksum 0x[0-9a-f]{4} \((in)?correct[^)]*\)|\[(udp|icmp6) sum ok\] |\[bad (udp|icmp6) cksum [^]]*\] |, bad cksum [^!]*!`)

// TestTcpdump compares the plain packets with tcpdump's own output.
func TestTcpdump(t *testing.T) {
	packets := plainPackets(t)
	for _, tt := range []struct {
		flag string
		o    Options
	}{{"-q", Options{Quiet: true}}, {"-n", Options{}}, {"-v", Options{Verbose: 1}}} {
		t.Run(tt.flag, func(t *testing.T) {
			want, got := tcpdump(t, packets, 65535, tt.flag), lines(packets, 65535, tt.o)
			if len(want) != len(packets) || len(got) != len(packets) {
				t.Fatalf("%d packets, tcpdump printed %d, we %d", len(packets), len(want), len(got))
			}
			for i, p := range packets {
				// A line that the list names must differ. Otherwise the list is out of date.
				known, want := isKnown(p.name, tt.flag), sums.ReplaceAllString(want[i], "")
				if (want == got[i]) == known {
					t.Errorf("%s, differs: %t\n-%s+%s", p.name, known, want, got[i])
				}
			}
		})
	}
}

// TestTcpdumpCut compares packets that a snaplen has cut. The line of such a packet is that of the
// whole packet, where the line shows nothing of what is missing, or it ends with a mark. A packet
// of which the whole TCP or UDP header is there has tcpdump's line; only TCP options may differ.
func TestTcpdumpCut(t *testing.T) {
	packets := plainPackets(t)
	whole := lines(packets, 65535, Options{})
	for snaplen := range 120 {
		var want []string
		if snaplen > 14 {
			want = tcpdump(t, packets, snaplen, "-n")
		}
		got := lines(packets, snaplen, Options{})
		if len(got) != len(packets) {
			t.Fatalf("cut to %d: %d lines of %d packets", snaplen, len(got), len(packets))
		}
		for i, p := range packets {
			text, ended := strings.CutSuffix(got[i], "\n")
			marked := mark.MatchString(text)
			if !ended || strings.Count(text, "\n") > 0 || !marked && got[i] != whole[i] {
				t.Errorf("%s cut to %d: %q", p.name, snaplen, got[i])
			}
			inHeader := snaplen < 14+20+20 && strings.HasPrefix(p.name, "tcp ") || snaplen < 14+20+8 && strings.HasPrefix(p.name, "udp ") ||
				snaplen < 14+40+20 && strings.HasPrefix(p.name, "tcp6") || snaplen < 14+40+8 && strings.HasPrefix(p.name, "udp6")
			if !strings.HasPrefix(p.name, "tcp") && !strings.HasPrefix(p.name, "udp") || inHeader {
				continue
			}
			if before, _, _ := strings.Cut(text, " options ["); got[i] != want[i] && (before == text || !strings.HasPrefix(want[i], before)) {
				t.Errorf("%s cut to %d:\n-%s+%s", p.name, snaplen, want[i], got[i])
			}
		}
	}
}

var mark = regexp.MustCompile(` \[\|(ether|arp|ip6?|tcp|udp|icmp6?|gre)\]$`)

// TestTcpdumpForm compares what stands around the headers: times, numbers, the Ethernet header and
// the bytes.
func TestTcpdumpForm(t *testing.T) {
	var packets []packet
	for _, p := range plainPackets(t) {
		if strings.HasPrefix(p.name, "tcp") || strings.HasPrefix(p.name, "udp") || strings.HasPrefix(p.name, "icmp echo") {
			packets = append(packets, p)
		}
	}
	packets = append(packets, packet{"text", frame(t, true, 0x0800, ip4(17), badUDP(0)[:8],
		gopacket.Payload("GET /\r\n\tx \x7f\x80\ry\r\n"))})
	for flag, o := range map[string]Options{
		"-t": {Time: NoTime}, "-tt": {Time: UnixTime}, "-ttt": {Time: SincePrevious}, "-tttt": {Time: LocalDate},
		"-ttttt": {Time: SinceFirst}, "-#": {Number: true}, "-e": {LinkLevel: true},
		"-x": {Dump: HexDump}, "-xx": {Dump: HexDump, DumpLinkLevel: true}, "-X": {Dump: HexASCIIDump},
		"-XX": {Dump: HexASCIIDump, DumpLinkLevel: true}, "-A": {Dump: ASCIIDump}, "-AA": {Dump: ASCIIDump, DumpLinkLevel: true},
	} {
		if diff := cmp.Diff(tcpdumpText(t, packets, 65535, flag), text(packets, 65535, o)); diff != "" {
			t.Errorf("%s (-tcpdump +ours): %s", flag, diff)
		}
	}
}
