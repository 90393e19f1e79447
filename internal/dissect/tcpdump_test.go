package dissect

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// tcpdump returns tcpdump's line for each packet, of which at most snaplen bytes were kept.
func tcpdump(t *testing.T, packets []packet, snaplen int, args ...string) []string {
	t.Helper()
	return split(tcpdumpText(t, packets, snaplen, args...))
}

// tcpdumpText returns tcpdump's output. Without tcpdump the test is skipped, on CI it fails.
func tcpdumpText(t *testing.T, packets []packet, snaplen int, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("tcpdump")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("tcpdump must be installed on CI: %v", err)
		}
		t.Skipf("no tcpdump: %v", err)
	}
	var file, stderr bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65535, layers.LinkType(linkNumber(packets[0].link))); err != nil {
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

// linkNumber is a LINKTYPE_ number for a type.
func linkNumber(t headers.Link) uint16 {
	for number := range uint16(300) {
		if headers.LinkToDecode(number) == t {
			return number
		}
	}
	return 0
}

// stamp is the time of packet i, to the microsecond.
func stamp(i int) time.Time { return time.Unix(1700000000, 1000*int64(i)) }

var lineStart = regexp.MustCompile(`(?m)^(?: *\d+  )?\d\d:\d\d:\d\d\.\d{6} `)

// split divides output into packets: a line that begins with a time, or with a number and a time,
// and the indented ones after it.
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
		data := p.data[:min(snaplen, len(p.data))]
		out = d.AppendLine(out, Packet{Time: stamp(i), Data: data, WireLen: len(p.data), Link: p.link})
	}
	return noName.ReplaceAllString(string(out), "${1}?     ")
}

// noName finds the index that tcpdump prints for an interface without a name.
var noName = regexp.MustCompile(`(?m)^((?: *\d+  )?(?:[-: .\d]* )?)if\d+ `)

// tcpdumpFlags are flags of tcpdump and their equivalents here.
var tcpdumpFlags = map[string]Options{
	"-n": {}, "-q": {Quiet: true}, "-e": {LinkLevel: true}, "-eq": {LinkLevel: true, Quiet: true},
	"-v": {Verbose: 1}, "-Kvv": {Verbose: 2, Unverified: true}, "-vv": {Verbose: 2}, "-vvv": {Verbose: 3},
	"-eqvX": {LinkLevel: true, Quiet: true, Verbose: 1, Dump: HexASCIIDump},
	"-t":    {Time: NoTime}, "-tt": {Time: UnixTime}, "-ttt": {Time: SincePrevious}, "-tttt": {Time: LocalDate},
	"-ttttt": {Time: SinceFirst}, "-#": {Number: true}, "-A": {Dump: ASCIIDump}, "-AA": {Dump: ASCIIDump, DumpLinkLevel: true},
	"-x": {Dump: HexDump}, "-xx": {Dump: HexDump, DumpLinkLevel: true},
	"-X": {Dump: HexASCIIDump}, "-XX": {Dump: HexASCIIDump, DumpLinkLevel: true},
}

// The lines of all packets are tcpdump's own, with every flag. The lines of packets that were
// truncated to a snaplen are tcpdump's, or stop earlier with a mark.
func TestTcpdump(t *testing.T) {
	t.Parallel()
	textPacket := packet{name: "text", data: frame(t, true, 0x0800, ip4(17), badUDP(0)[:8],
		gopacket.Payload("GET /\r\n\tx \x7f\x80\ry\r\n"))}
	for _, set := range []struct {
		name        string
		packets     []packet
		first, last int  // of the lengths to which the packets are cut
		plain       bool // only flags without -v and bytes
	}{
		{"Ethernet", append(append(plainPackets(t), protocolPackets(t)...), textPacket), 15, 129, false},
		{"applications", applicationPackets(t), 42, 119, true},
		{"cooked", cookedPackets(t, headers.Cooked), 1, 64, false},
		{"cooked, version 2", cookedPackets(t, headers.Cooked2), 1, 64, false},
		{"raw", rawPackets(t), 1, 64, false},
		{"loopback", loopbackPackets(t), 1, 64, false},
	} {
		for flag, o := range tcpdumpFlags {
			if set.plain && (o.Verbose > 0 || o.Dump != NoDump) {
				continue // TestTcpdumpApplications has -v
			}
			t.Run(set.name+" "+flag, func(t *testing.T) {
				t.Parallel()
				if o.Time == LocalTime {
					compareLines(t, set.packets, 65535, flag, o)
				} else if diff := cmp.Diff(tcpdumpText(t, set.packets, 65535, flag), text(set.packets, 65535, o)); diff != "" {
					t.Errorf("(-tcpdump +ours): %s", diff)
				}
			})
		}
		t.Run(set.name+" cut", func(t *testing.T) {
			t.Parallel()
			step := 1
			if testing.Short() {
				step = 7
			}
			for snaplen := set.first; snaplen <= set.last; snaplen += step {
				compareLines(t, set.packets, snaplen, "-n", Options{})
			}
		})
	}
}

// compareLines compares lines with tcpdump's. The line of a truncated packet may end earlier.
func compareLines(t *testing.T, packets []packet, snaplen int, flag string, o Options) {
	t.Helper()
	want, got := tcpdump(t, packets, snaplen, flag), lines(packets, snaplen, o)
	if len(want) != len(packets) || len(got) != len(packets) {
		t.Fatalf("%s: %d packets, tcpdump printed %d, we %d", flag, len(packets), len(want), len(got))
	}
	for i, p := range packets {
		before := mark.ReplaceAllString(got[i], "")
		if cut := snaplen < len(p.data) && before != got[i] && strings.HasPrefix(want[i], before); got[i] != want[i] && !cut {
			t.Errorf("%s %s cut to %d:\n-%s+%s", flag, p.name, snaplen, want[i], got[i])
		}
	}
}

var mark = regexp.MustCompile(` \[\|[a-z0-9]+\]\n$`)
