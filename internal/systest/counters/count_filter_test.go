package counters_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// count accepts the filters of a capture, and counts matching packets: of its own program, of a
// traced program, and of sent packets.
func TestCountFilter(t *testing.T) {
	t.Parallel()
	expression := filepath.Join(t.TempDir(), "expression")
	testnet.Must(t, os.WriteFile(expression, []byte("udp # and nothing else\nport 9999\n"), 0o644))
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("1\n6 0 0 0\n"), 0o644); err != nil { // matches no packet
		t.Fatal(err)
	}
	for variant, traced := range []bool{false, true} {
		if traced && testnet.ProbeFentry() != nil {
			continue
		}
		pair := testnet.MustPair(t, testnet.PairOptions{})
		if traced {
			testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{Count: true})
		}
		for i, test := range []struct{ args, filter, want string }{
			{"udp port 9999", "udp port 9999", "in 2 udp"},
			{"-F " + expression, "udp port 9999", "in 2 udp"},
			{"--filter-file " + program, program, "in 0"},
			{"--flows 2 tcp port 443", "tcp port 443", "in 1 tcp"},
			{"vlan and tcp", "vlan and tcp", "in 0"},
			{"-Q inout --flows 1 tcp port 443 or tcp port 80", "tcp port 443 or tcp port 80", "in 1 tcp, out 1 tcp"},
			{"-Q inout outbound and tcp", "outbound and tcp", "in 0, out 1 tcp"},
		} {
			if !testnet.Shared(variant + i) {
				continue
			}
			p, output := systest.Counting(t, pair, append(strings.Fields("count -i rx0 --json --interval 1h"), strings.Fields(test.args)...)...)
			testnet.Send(t, pair, testnet.UDPFrame(100, 1), testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1000, DstPort: 443}), testnet.UDPFrame(100, 2))
			systest.SendBack(t, pair, testnet.TxToRx().Reverse().TCP(testnet.Segment{SrcPort: 443, DstPort: 1000}))
			p.Interrupt()
			var got []string
			for _, r := range systest.Objects[systest.CountReport](t, output()) {
				if r.Filter != test.filter {
					t.Errorf("%s: the filter is %q", test.args, r.Filter)
				}
				text := fmt.Sprint(r.Direction, " ", r.Total.Packets)
				for _, p := range r.Protocols {
					text += " " + p.Protocol
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("traced: %v: %s: %s, want %s", traced, test.args, got, test.want)
			}
		}
	}
}

// -d prints the same as for a capture, without privileges, and errors in a filter are the same as
// there.
func TestCountFilterErrors(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-d tcp port 443", "-dd -Q out icmp", "-d --ebpf udp"} {
		want, err := systest.Command(strings.Fields(args)...).Output()
		testnet.Must(t, err)
		got, err := systest.Command(append([]string{"count"}, strings.Fields(args)...)...).Output()
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v: %s, want %s", args, err, got, want)
		}
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for args, want := range map[string]string{
		"count -i rx0 tcp prot 443":             "xdpcap: filter expression:\n",
		"count -i rx0 --flows 1 inbound -Q out": "xdpcap: filter expression:\n",
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, strings.Fields(args)...).Wait()
		if status != 1 || !strings.HasPrefix(stderr, want) {
			t.Errorf("%s: exit status %d: %s, want %s", args, status, stderr, want)
		}
		if name := systest.Attached(t, pair); name != "" {
			t.Errorf("%s: %s is attached", args, name)
		}
	}
}

// With -Q inout a conversation is one row, with its packets in both directions, and the rate of
// each.
func TestCountConversations(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p, output := systest.Counting(t, pair, "count", "-i", "rx0", "-Q", "inout", "--flows", "3", "--interval", "1h", "tcp")
	testnet.Send(t, pair, testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1000, DstPort: 443}), testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1000, DstPort: 443}))
	systest.SendBack(t, pair, testnet.TxToRx().Reverse().TCP(testnet.Segment{SrcPort: 443, DstPort: 1000}))
	p.Interrupt()
	if text := output(); strings.Count(text, "FLOW") != 1 || !regexp.MustCompile(
		`FLOW +FROM +TO +PACKETS +BYTES +BIT/S +BACK\ntcp +192.0.2.1:1000 +192.0.2.2:443 +3 +180 +\S.*\S\n`).MatchString(text) {
		t.Error(text)
	}
}
