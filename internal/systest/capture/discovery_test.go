package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A command that exports and names no interface counts on all, also on those that come later.
func TestAllInterfaces(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p, output := systest.Counting(t, pair, "stats", "--listen", "127.0.0.1:0", "--interval", "100ms", "--json")
	send := func() {
		for seq := range uint64(3) {
			testnet.Send(t, pair, testnet.UDPFrame(100, seq))
		}
	}
	has := func(line string) func() bool {
		return func() bool { return strings.Contains(systest.Scrape(t, pair, systest.MetricsURL(t, p)), line) }
	}
	pass := `xdpcap_verdict_packets_total{interface="%s",verdict="pass"} %d` + "\n"
	send()
	testnet.WaitFor(t, "the packets of rx0", has(fmt.Sprintf(pass, "rx0", 3)))
	systest.AddPair(t, pair, "late0", 1, 1)
	testnet.WaitFor(t, "a new interface", has(`interface="late0"`))
	err := pair.Rx.Do(func() error {
		late, err := netlink.LinkByName("late0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(late)
	})
	if err != nil {
		t.Fatal(err)
	}
	testnet.WaitFor(t, "the interface to go", func() bool { return !has(`interface="late0"`)() })
	send()
	testnet.WaitFor(t, "more packets of rx0", has(fmt.Sprintf(pass, "rx0", 6)))
	if has(`interface="lo"`)() {
		t.Error("loopback is counted")
	}
	p.Interrupt()
	if last := systest.LastObject[systest.StatsReport](t, output()); last.Interface != "rx0" || last.Total.Packets != 6 {
		t.Errorf("%+v", last)
	}
	systest.CheckDetached(t, pair)
}
