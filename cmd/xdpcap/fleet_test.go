package main_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The recipe in docs/fleet.md works: goflow2 reports the packets that were sent to three hosts
// together, and each host those that it has dropped.
func TestFleet(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	testnet.Require(t, "jq")
	cmd := exec.Command(filepath.Join("..", "..", "contrib", "fleet", "fleet.sh"), os.Args[0])
	cmd.Env = append(os.Environ(), beXdpcap+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []struct {
		flow    string
		packets float64
	}{{"10.99.1.2 > 10.99.3.2:7001", 6000}, {"10.99.2.2 > 10.99.3.2:7002", 3000}, {"10.99.3.2 > 10.99.2.2:7003", 1000}} {
		_, rest, _ := strings.Cut(string(out), want.flow)
		var packets float64
		fmt.Sscan(rest, &packets)
		// One of ten is drawn, so the deviation is three times the root of the packets.
		if limit := 5 * 3 * math.Sqrt(want.packets); math.Abs(packets-want.packets) > limit {
			t.Errorf("%s: %.0f packets, want %.0f: %s", want.flow, packets, want.packets, out)
		}
	}
	for i, dropped := range []int{500, 200, 0} {
		_, host, _ := strings.Cut(string(out), fmt.Sprintf("host %d: ", i+1))
		host, _, _ = strings.Cut(host, "\n")
		if !strings.HasSuffix(host, fmt.Sprintf(" 0 lost, %d dropped", dropped)) {
			t.Errorf("host %d: %s, want %d dropped: %s", i+1, host, dropped, out)
		}
	}
}
