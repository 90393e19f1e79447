package main_test

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A process takes its flags from the environment.
func TestSettingsOfProcess(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ count, want string }{
		{"1", "listening on " + pair.RxName},
		{"x", "xdpcap: XDPCAP_COUNT: -c x: must be 0 or a positive whole number"},
	} {
		cmd := command("stats", "--interval", "20ms")
		cmd.Env = append(cmd.Env, "XDPCAP_INTERFACE="+pair.RxName, "XDPCAP_COUNT="+test.count)
		if out := runInside(t, pair.Rx, cmd); !strings.Contains(out, test.want) {
			t.Errorf("%s does not say %s", out, test.want)
		}
	}
	cmd := command("--json")
	cmd.Env = append(cmd.Env, "XDPCAP_PACKET_COUNT=x")
	if s := account(t, runInside(t, pair.Rx, cmd)); !strings.HasPrefix(s.Error, "XDPCAP_PACKET_COUNT: -c x") {
		t.Errorf("the object says %q", s.Error)
	}
}
