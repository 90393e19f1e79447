package counters_test

import (
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
	has := func(words string) bool {
		return strings.Contains(systest.Scrape(t, pair, systest.MetricsURL(t, p)), words)
	}
	const pass = `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} `
	systest.SendNumbered(t, pair, 3, 100)
	systest.WaitMetric(t, pair, p, pass+"3\n")
	late := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "late0", TxName: "late1"})
	testnet.WaitFor(t, "a new interface", func() bool { return has(`interface="late0"`) })
	systest.InRx(t, late, netlink.LinkDel)
	testnet.WaitFor(t, "the interface to go", func() bool { return !has(`interface="late0"`) })
	systest.SendNumbered(t, pair, 3, 100)
	systest.WaitMetric(t, pair, p, pass+"6\n")
	if has(`interface="lo"`) {
		t.Error("loopback is counted")
	}
	p.Interrupt()
	if last := systest.LastObject[systest.StatsReport](t, output()); last.Interface != "rx0" || last.Total.Packets != 6 {
		t.Errorf("%+v", last)
	}
	systest.CheckDetached(t, pair)
}
