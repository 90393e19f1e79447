package frame

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func TestGuardError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, remedy, want string }{
		{"", "", ""},
		{"rx0 is used", "", "--sink drops packets, and rx0 is used: this machine would be disturbed or cut off; add --yes to do it anyway"},
		{"rx0 is used", "end that", "--sink drops packets, and rx0 is used: this machine would be disturbed or cut off; end that; or add --yes to do it anyway"},
	} {
		got := ""
		if err := (Guard{Flag: "--sink"}).refuse(test.reason, test.remedy); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Every flag that drops packets is refused in the same way, except with --yes. A command that lets
// all packets pass is allowed.
func TestGuard(t *testing.T) {
	t.Parallel()
	addressed, silent := testnet.MustPair(t, testnet.PairOptions{Addresses: true}), testnet.MustPair(t, testnet.PairOptions{})
	routed := testnet.MustPair(t, testnet.PairOptions{})
	everywhere := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	err := routed.Rx.Do(func() error { return netlink.RouteAdd(&netlink.Route{LinkIndex: routed.RxIndex, Dst: everywhere}) })
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		g       Guard
		pair    *testnet.Pair
		refused string // "" = allowed
	}{
		{"an address", Guard{Flag: "--sink", Interfaces: []string{"rx0"}}, addressed, "--sink drops packets, and rx0 has the IP address 192.0.2.2"},
		{"the default route", Guard{Flag: "--drop 1", Interfaces: []string{"rx0"}}, routed, "--drop 1 drops packets, and the default route is over rx0"},
		{"--yes", Guard{Flag: "--sink", Interfaces: []string{"rx0"}, Yes: true}, addressed, ""},
		{"nothing drops", Guard{Interfaces: []string{"rx0"}}, addressed, ""},
		{"no address", Guard{Flag: "--sink", Interfaces: []string{"rx0"}}, silent, ""},
		{"no such interface", Guard{Flag: "--sink", Interfaces: []string{"rx0", "nosuch"}}, silent, `interface "nosuch" does not exist`},
	} {
		err := test.pair.Rx.Do(test.g.check)
		if got := fmt.Sprint(err); (err == nil) != (test.refused == "") || !strings.Contains(got, test.refused) && err != nil {
			t.Errorf("%s: %v, want %q", test.name, err, test.refused)
		}
	}
}
