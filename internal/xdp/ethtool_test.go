package xdp_test

import (
	"net"
	"testing"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// /sys may show the interfaces of another network namespace: one that has the name there is not
// taken for ours.
func TestQueuesOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ifi  xdp.Interface
		want int
	}{
		{xdp.Interface{Name: "lo", Index: 1}, 1},
		{xdp.Interface{Name: "lo", Index: 7}, 0},
		{xdp.Interface{Name: "lo", Index: 1, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, 0},
	} {
		if got := test.ifi.ActiveQueues(); got != test.want {
			t.Errorf("%+v: %d queues, want %d", test.ifi, got, test.want)
		}
	}
}
