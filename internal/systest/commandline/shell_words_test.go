package commandline_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A command in a message works as described when it is pasted into a shell, even if an interface
// has a name that a shell would parse as commands: any container with CAP_NET_ADMIN may choose one.
func TestShellWords(t *testing.T) {
	t.Parallel()
	const name = "a;reboot"
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: name})
	unquoted := regexp.MustCompile(`(?m)(ip link|ethtool|sysctl|xdpcap [a-z]+) .*[^']` + name)
	systest.InRx(t, pair, netlink.LinkSetDown)
	for _, args := range [][]string{{"-i", name, "-c", "1"}, {"stats", "-i", name}, {"probe", "-i", name}} {
		out := systest.RunInside(t, pair.Rx, systest.Command(args...))
		want := "a;reboot is down: ip link set dev 'a;reboot' up"
		if args[0] == "probe" {
			want = "interface a;reboot"
		}
		if !strings.Contains(out, want) || unquoted.MatchString(out) {
			t.Errorf("%s: %s", args, out)
		}
	}
}
