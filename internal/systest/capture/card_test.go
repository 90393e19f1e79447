package capture_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// hasCardMetadata reports whether veth provides the card's metadata to XDP programs on this kernel.
func hasCardMetadata(t *testing.T, pair *testnet.Pair) (has bool) {
	t.Helper()
	pair.Rx.Do(func() error {
		has = len(support.Metadata(pair.RxIndex)) == 3
		return nil
	})
	return has
}

// If a card lacks a feature, one line reports it: an error for requested stamps, a notice for VLAN
// tags, and no line if the feature was not requested.
func TestCardRefusals(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	has := hasCardMetadata(t, pair)
	stamps := func(kind, why string) string { return "xdpcap: time stamps of the type " + kind + ": " + why }
	adapter := "driver veth of rx0 has no PTP clock to compare with the system's; -j adapter_unsynced "
	if !has {
		adapter = "this kernel does not say what the driver of rx0 gives XDP programs: Linux 6.7 does"
	}
	systest.CheckRefused(t, pair, map[string]string{
		"-i rx0 -j adapter":                             stamps("adapter", adapter),
		"-i rx0 -j adapter_unsynced --xdp-mode generic": stamps("adapter_unsynced", "programs in generic mode cannot ask the driver of rx0"),
		"-i rx0 -j adapter_unsynced --rx-capture entry": stamps("adapter_unsynced", "packets of rx0 are captured by tracing a program"),
		"-i rx0 -j best":                                "xdpcap: -j: time stamp type \"best\": must be host, host_lowprec, adapter or adapter_unsynced\n",
	})
	for _, test := range []struct {
		args string
		want bool // a notice
	}{{"", false}, {"--vlan-restore", !has}, {"--vlan-restore --xdp-mode generic", true}, {"--vlan-restore=false", false}} {
		said := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", "rx0", "--account")...).Interrupt()
		if got := strings.Count(said, "xdpcap: VLAN tags that the card of rx0 has stripped are not put back: "); got > 1 || (got == 1) != test.want {
			t.Errorf("%q: %s", test.args, said)
		}
	}
}

// -J lists the time stamps that the interface supports, like tcpdump.
func TestListStampTypes(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	want := "Time stamp types for rx0 (use option -j to set):\n  host (Host)\n  host_lowprec (Host, low precision)\n"
	if hasCardMetadata(t, pair) {
		want += "  adapter_unsynced (Adapter, not synced with system time)\n"
	}
	if out := systest.RunInside(t, pair.Rx, systest.Command("-J", "-i", "rx0")); out != want {
		t.Error(out)
	}
}

// A packet whose VLAN tag is in its metadata has the tag and its hash in the line and in the file.
// Packets without the card's stamp are counted.
func TestCardPackets(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	if !hasCardMetadata(t, pair) {
		t.Skip("this kernel's veth gives XDP programs no metadata")
	}
	testnet.MustTagBeside(t, pair, 0x88a8, 0x2007)
	for i, transport := range []string{"perf", "ring"} {
		if !testnet.Shared(i) {
			continue
		}
		file, printed := systest.TempFile(t), systest.NewPipe(t)
		p := systest.Listening(t, pair.Rx, printed.In, "-i", "rx0", "--transport", transport, "-w", file, "--print", "-ev", "-c", "2", "-j", "adapter_unsynced", "vlan 7 and tcp dst port 80")
		testnet.Send(t, pair, testnet.TxToRx().TCP(testnet.Segment{SrcPort: 9, DstPort: 80}), testnet.TxToRx().UDP(9, 80, []byte("x")),
			testnet.TxToRx().TCP(testnet.Segment{SrcPort: 10, DstPort: 80}))
		status, said := p.Wait()
		for _, want := range []string{
			"xdpcap: rx0: the card is asked for timestamp, hash, vlan_tag\n",
			"xdpcap: cannot tell the card to stamp all packets, and those that it does not stamp have the host's stamps: ask how the card of rx0 stamps packets: driver veth: ",
			"xdpcap: rx0: the card gave no time stamp for 2 packets, which have the host's\n",
		} {
			if status != 0 || strings.Count(said, want) != 1 {
				t.Errorf("%s: exit status %d, not said: %s: %s", transport, status, want, said)
			}
		}
		lines := printed.Read(t)
		line := regexp.MustCompile(`(?m)^\S+ \(queue 0, id \d+, hash 0xfeedc0de by software\) .* > .*, ethertype 802.1Q-QinQ \(0x88a8\), length 64: vlan 7, p 1, `)
		if n := len(line.FindAllString(lines, -1)); n != 2 {
			t.Errorf("%s: %d lines are as they should be: %s", transport, n, lines)
		}
		if got := systest.OutputOf(t, "tcpdump", "-nr", file, "vlan 7 and tcp"); strings.Count(got, "\n") != 2 {
			t.Errorf("%s: the file: %s", transport, got)
		}
		// A hash that software computed is not the card's.
		if got := systest.OutputOf(t, "tshark", "-r", file, "-X", "read_format:MIME Files Format", "-V"); strings.Contains(got, "Hash Algorithm") {
			t.Errorf("%s: the file has a hash", transport)
		} else if !strings.Contains(got, "time stamps: adapter_unsynced") {
			t.Errorf("%s: the file does not say whose its stamps are", transport)
		}
	}
	counts := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-c", "1", "-j", "adapter_unsynced", "--account", "--json="+counts)
	testnet.Send(t, pair, testnet.TxToRx().UDP(9, 80, []byte("x")))
	p.Wait()
	object := systest.Contents(t, counts)
	if s := systest.Account(t, object); s.Unstamped != 1 || s.Interfaces[0].Unstamped != 1 {
		t.Errorf("unstamped: %s", object)
	}
}

// In generic mode a VLAN tag beside the packet is missing, which is said, and at tc it is put back.
func TestGenericWithoutTag(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	if !hasCardMetadata(t, pair) {
		t.Skip("this kernel may lack tcx, which MustTagBeside needs")
	}
	testnet.MustTagBeside(t, pair, 0x8100, 7)
	for _, test := range []struct {
		args         string
		said, tagged bool
	}{{"--xdp-mode generic", true, false}, {"--xdp-mode generic --vlan-restore=false", false, false}, {"--at tc", false, true}, {"", false, true}} {
		printed := systest.NewPipe(t)
		p := systest.Listening(t, pair.Rx, printed.In, append(strings.Fields(test.args), "-i", "rx0", "-e", "-c", "1")...)
		testnet.Send(t, pair, testnet.UDPFrame(100, 0))
		_, said := p.Wait()
		if got := strings.Contains(said, "xdpcap: rx0: generic mode does not give programs a VLAN tag "); got != test.said {
			t.Errorf("%s: %s", test.args, said)
		}
		if line := printed.Read(t); strings.Contains(line, ": vlan 7, ") != test.tagged || !strings.Contains(line, "UDP") {
			t.Errorf("%s: %s", test.args, line)
		}
	}
}

// On a network card xdpcap captures in the driver, with and without --sink, and beside a program;
// and every packet is in the account.
func TestNetworkCard(t *testing.T) {
	t.Parallel()
	const sent = 50
	for _, test := range []struct {
		name, mode string
		args       []string
		arrive     int64
		beside     bool
	}{
		{"capture", "native", nil, sent, false},
		{"by a pattern", "native", []string{"-i", "rx*"}, sent, false}, // a veth would be captured at tc
		{"sink", "native", []string{"--sink"}, 0, false},
		{"beside a program", "", []string{"--rx-capture", "exit"}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pair := testnet.MustCards(t, testnet.PairOptions{})
			if test.beside {
				testnet.MustTarget(t, pair, testnet.Rewriting)
			}
			listener := listenIP(t, pair)
			p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", "rx0", "-w", os.DevNull, "-c", "50", "--json"}, test.args...)...)
			sender := testnet.MustSender(t, pair)
			for range sent {
				testnet.Must(t, sender.Send(testnet.TxToRx().UDP(1000, testnet.DropPort, make([]byte, 100))))
			}
			// -c ends it. The driver processes its received packets before it detaches a program.
			status, stderr := p.Wait()
			if status != 0 || !strings.Contains(stderr, test.mode) {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			if s := systest.Account(t, stderr); s.Captured != sent || s.Seen != sent {
				t.Errorf("summary %+v", s)
			}
			if got := listener(); got != test.arrive {
				t.Errorf("%d packets reached the stack, want %d", got, test.arrive)
			}
		})
	}
}

// If a card's driver loses the program when it sets up its queues again, the capture attaches it
// again, and its account goes on.
func TestDriverLosesProgram(t *testing.T) {
	t.Parallel()
	for name, way := range systest.Ways {
		t.Run(name, func(t *testing.T) {
			const before, after = 400, 50
			card := systest.MustLosingCard(t)
			p := systest.Listening(t, card.Rx, nil, "-i", "rx0", "--at", "xdp", "-w", os.DevNull, "-c", strconv.Itoa(after), "--json", "udp dst port 2000")
			card.Send(t, before, testnet.DropPort)
			missed := card.Lose(t, p, way)
			card.Send(t, after, 2000)
			status, said := p.Wait() // -c ends it
			if status != 0 || strings.Count(said, "has seen none") != 2 || strings.Contains(said, "that did not pass its XDP hook") {
				t.Errorf("exit status %d: %s", status, said) // the notice is in the object, too
			}
			s := systest.Account(t, said)
			if s.Captured != after || s.FilteredOut < before || s.PassedBy != missed || uint64(s.Seen)+s.PassedBy > card.Sent {
				t.Errorf("%d sent, %d missed: %+v", card.Sent, missed, s.AccountKeys)
			}
		})
	}
}
