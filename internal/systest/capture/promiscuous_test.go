package capture_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// promiscuity is the number of users of promiscuous mode on a receiving interface.
func promiscuity(t *testing.T, pair *testnet.Pair) (n int) {
	t.Helper()
	systest.InRx(t, pair, func(l netlink.Link) error { n = l.Attrs().Promisc; return nil })
	return n
}

// Promiscuous mode is on if requested, and with --sink unless it was refused. The kernel ends it
// with the process, also after kill -9.
func TestPromiscuous(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	second := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	for i, test := range []struct {
		args string
		want int
	}{
		{"", 0},
		{"-p", 0},
		{"-P", 1},
		{"--promiscuous", 1},
		{"--promiscuous-mode --xdp-mode generic", 1},
		{"--sink", 1},
		{"--sink -P", 1},
		{"--sink -p", 0},
	} {
		if !testnet.Shared(i) {
			continue
		}
		p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", pair.RxName, "-i", second.RxName, "-w", os.DevNull)...)
		for _, one := range []*testnet.Pair{pair, second} {
			if got := promiscuity(t, one); got != test.want {
				t.Errorf("%q: %d ask for promiscuous mode on %s, want %d", test.args, got, one.RxName, test.want)
			}
		}
		p.Interrupt()
		if n := promiscuity(t, pair) + promiscuity(t, second); n != 0 {
			t.Errorf("%q: promiscuous mode is on after the end", test.args)
		}
	}
	p := systest.Listening(t, pair.Rx, nil, "-P", "-i", pair.RxName, "-w", os.DevNull)
	p.Cmd.Process.Kill()
	<-p.Done
	testnet.WaitFor(t, "the kernel to end promiscuous mode", func() bool { return promiscuity(t, pair) == 0 })
}

// Without CAP_NET_RAW -P is an error and no program stays attached. --sink goes on, and reports the
// missing capability once.
func TestPromiscuousForbidden(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	second := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	const cause = "missing privileges: CAP_NET_RAW; run it as root (sudo), or give the binary cap_net_raw, too"

	given := systest.Surroundings{Capabilities: []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}}
	status, stderr := systest.StartCommand(t, pair.Rx, nil, given.Command(t, "-P", "-i", pair.RxName, "-w", os.DevNull)).Wait()
	if want := "xdpcap: set rx0 to promiscuous mode: " + cause + "\n"; status != 1 || stderr != want {
		t.Errorf("exit status %d: %q, want %q", status, stderr, want)
	}
	systest.CheckDetached(t, pair)

	summary := systest.DirectoryFor(t, systest.Somebody(t)) + "/summary"
	p := systest.StartCommand(t, pair.Rx, nil, given.Command(t, "--sink", "-i", pair.RxName, "-i", second.RxName, "-w", os.DevNull, "--json="+summary, "--transport", "ring")).Listening()
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	stderr = p.Interrupt()
	const notice = "rx0 may ignore packets for other MAC addresses: set it to promiscuous mode: " + cause
	if s := systest.Account(t, systest.Contents(t, summary)); s.Captured != 1 || !slices.Equal(s.Notices, []string{notice}) || strings.Count(stderr, "xdpcap: "+notice+"\n") != 1 {
		t.Errorf("%s", stderr)
	}
}
