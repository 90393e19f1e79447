package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// tcpdump returns what tcpdump prints for each packet, of which at most snaplen bytes were kept. Without tcpdump the test is
// skipped, on CI it fails.
func tcpdump(t *testing.T, packets []packet, snaplen int, args ...string) []string {
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
	return split(string(out))
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

// printed returns what the printer prints for each packet.
func printed(t testing.TB, packets []packet, snaplen, verbosity int) []string {
	t.Helper()
	var out bytes.Buffer
	p := newPrinter(&out, verbosity)
	for i, pkt := range packets {
		if err := p.print(stamp(i), pkt.data[:min(snaplen, len(pkt.data))], len(pkt.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
	return split(out.String())
}

// differs lists the packets whose lines are not tcpdump's, and with which flags: dissectors that are missing here (their
// packet gets a name and a length), its hex dumps, and fragments, of which it says little without -v.
var differs = map[string]string{
	"tcp odd options": "-n -v -vv", "tcp6 odd options": "-n -v -vv", "tcp md5": "-n -v -vv", "tcp6 md5": "-n -v -vv",
	"tcp header too long": "-q",        // it prints the negative length as 4294967256
	"tcp mss too long":    "-n -v -vv", // it goes on after the length that it expects
	"tcp rst data":        "-v -vv", "tcp6 rst data": "-v -vv",
	"icmp timestamp reply": "-q -n -v -vv", "icmp router advertisement": "-q -n -v -vv",
	"arp other":                  "-q -n -v -vv",
	"icmp6 unreachable 5":        "-q -n -v",
	"icmp6 other":                "-q -n -v -vv",
	"icmp6 solicitation":         "-vv",
	"icmp6 advertisement":        "-vv",
	"icmp6 router solicitation":  "-vv",
	"icmp6 router advertisement": "-vv",
	"first fragment":             "-q -n", "last fragment": "-q -n", "middle fragment": "-q -n",
	"proto 2": "-q -n -v -vv", "proto6 2": "-q -n -v -vv",
	"proto 51": "-q -n -v -vv", "proto6 51": "-q -n -v -vv",
	"proto 89": "-q -n -v -vv", "proto6 89": "-q -n -v -vv",
	"proto 103": "-q -n -v -vv", "proto6 103": "-q -n -v -vv",
	"proto 112": "-q -n -v -vv", "proto6 112": "-q -n -v -vv",
	"proto 132": "-q -n -v -vv", "proto6 132": "-q -n -v -vv",
	"hop by hop": "-v -vv", "destination options": "-v -vv",
	"routing":    "-q -n -v -vv",
	"ip options": "-v -vv",
}

// TestTcpdumpCut compares packets that a snaplen has cut. TCP and UDP are the same at every length, except for the option
// that is cut. tcpdump stops the others a field earlier or later than we do; what they must not do is look whole and be
// another line than that of the whole packet.
func TestTcpdumpCut(t *testing.T) {
	packets := plainPackets(t)
	whole := printed(t, packets, 65535, 0)
	for snaplen := 15; snaplen < 120; snaplen++ {
		want, got := tcpdump(t, packets, snaplen, "-n"), printed(t, packets, snaplen, 0)
		for i, p := range packets {
			same := got[i] == want[i] || inOptions(got[i]) != "" && inOptions(got[i]) == inOptions(want[i])
			if differs[p.name] != "" || !strings.HasPrefix(p.name, "tcp") && !strings.HasPrefix(p.name, "udp") {
				same = got[i] == whole[i] || strings.Contains(got[i], "[|")
			}
			if !same {
				t.Errorf("%s cut to %d:\n-%s+%s", p.name, snaplen, want[i], got[i])
			}
		}
	}
}

// inOptions returns what is before the options of a line that ends among them.
func inOptions(line string) string {
	before, options, _ := strings.Cut(line, " options [")
	if !strings.Contains(options, " [|tcp]") {
		return ""
	}
	return before
}

// TestTcpdump compares the plain packets with tcpdump's own output.
func TestTcpdump(t *testing.T) {
	packets := plainPackets(t)
	for _, tt := range []struct {
		flag      string
		verbosity int
	}{{"-q", -1}, {"-n", 0}, {"-v", 1}, {"-vv", 2}} {
		t.Run(tt.flag, func(t *testing.T) {
			want, got := tcpdump(t, packets, 65535, tt.flag), printed(t, packets, 65535, tt.verbosity)
			if len(want) != len(packets) || len(got) != len(packets) {
				t.Fatalf("%d packets, tcpdump printed %d, we %d", len(packets), len(want), len(got))
			}
			for i, p := range packets {
				// Where the list says that a line differs, it must, or the list is no longer true.
				known := slices.Contains(strings.Fields(differs[p.name]), tt.flag)
				if (want[i] == got[i]) == known {
					t.Errorf("%s, differs: %t\n-%s+%s", p.name, known, want[i], got[i])
				}
			}
		})
	}
}
