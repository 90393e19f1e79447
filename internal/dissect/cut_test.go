package dissect

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// A line that ends earlier than the whole packet's line has a mark, or words for that.
func TestCutLinesSaySo(t *testing.T) {
	t.Parallel()
	sums := regexp.MustCompile(`\[udp sum ok\] |\[icmp6 sum ok\] |, cksum 0x[0-9a-f]{4} \(correct\)| bad igmp cksum 0!| \(wrong icmp cksum [^!]*!\)`)
	packets := slices.Concat(plainPackets(t), protocolPackets(t), cookedPackets(t, headers.Cooked2), rawPackets(t), loopbackPackets(t))
	for _, p := range applicationPackets(t) {
		if !strings.HasPrefix(p.name, "option") && !strings.HasPrefix(p.name, "ntp") {
			packets = append(packets, p)
		}
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, o := range []Options{{}, {Verbose: 1}, {Verbose: 2}} {
		d := New(o)
		for _, p := range packets {
			show := func(n int) string {
				line := d.AppendLine(nil, Packet{Time: stamp(0), Data: p.data[:n], WireLen: len(p.data), Link: p.link})
				return strings.TrimSuffix(string(line), "\n")
			}
			whole := sums.ReplaceAllString(show(len(p.data)), "")
			for n := 1; n < len(p.data); n += step {
				cut := show(n)
				rest, begins := strings.CutPrefix(whole, cut)
				if begins && rest != "" && !hexRow.MatchString(rest) && !hexRow.MatchString(cut[strings.LastIndexByte(cut, '\n')+1:]) {
					t.Errorf("-v %d, %s cut to %d of %d bytes ends without a mark:\n%s\n%s", o.Verbose, p.name, n, len(p.data), cut, whole)
					break
				}
			}
		}
	}
}

// hexRow is how bytes in hexadecimal begin, whose end needs no mark.
var hexRow = regexp.MustCompile(`^[\t\n ]+0x[0-9a-f]{4}: `)

// A list that ends before the packet does has a mark, too. tcpdump ends these without a mark.
func TestListsSaySo(t *testing.T) {
	t.Parallel()
	solicitation := append(append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, ip6A...), 200, 1, 1, 2, 3, 4, 5, 6)
	quoted := make([]byte, 136)
	copy(quoted, []byte{11, 0, 0, 0, 0, 32, 0, 0, 0x45, 0, 0, 20})
	dns := append([]byte{0x9c, 0x40, 0, 53, 0, 34, 0, 0}, 0, 7, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0)
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"option without a name", frame(t, true, 0x86dd, ip6(58), gopacket.Payload(append(solicitation, 1, 1, 2, 0, 0, 0, 0, 9))),
			"unknown option (200), length 8 (1): \n\t  0x0000:  0102 0304 0506\n\t  source link-address option (1), length 8 (1): 02:00:00:00:00:09"},
		{"TLV without a value", frame(t, true, 0x88cc, gopacket.Payload{8, 0, 10, 1, 'x', 0, 0}), "Port Description TLV (4), length 0 (invalid)"},
		{"record without an end", frame(t, true, 0x0800, ip4(17), gopacket.Payload(append(dns, 1, 'a', 0, 0, 1, 0, 1))), "1/0/0 a. [|domain]"},
		{"long object", frame(t, true, 0x0800, ip4(1), gopacket.Payload(append(quoted, 0x20, 0, 0, 0, 0, 12, 9, 9, 1, 2, 3, 4))), "0x0000:  0102 0304 [|icmp]"},
		{"object of length 0", frame(t, true, 0x0800, ip4(1), gopacket.Payload(append(quoted, 0x20, 0, 0, 0, 0, 0, 9, 9, 1, 2, 3, 4))), "length 0 (invalid)"},
	} {
		got := string(New(Options{Verbose: 1}).AppendLine(nil, Packet{Time: stamp(0), Data: test.data, WireLen: len(test.data)}))
		if !strings.HasSuffix(got, test.want+"\n") {
			t.Errorf("%s ends otherwise than %q: %q", test.name, test.want, got)
		}
	}
}
