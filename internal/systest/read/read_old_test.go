package read_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
)

// A file that version 0.1.0 has written says as much as it did to that version: weights, outlets, a
// clock that was set back, and how packets were chosen.
func TestReadOldFile(t *testing.T) {
	t.Parallel()
	const file = "testdata/written-by-0.1.pcapng"
	lines := strings.Split(systest.MustRead(t, "--format", "json", file), "\n")
	for i, want := range []string{`"captured":60,"weight":1000,"source_mac"`, `"captured":60,"weight":10,"to":"eth1","source_mac"`, `"captured":60,"clock_set_back_ns":1000000000,"source_mac"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %s: %s", i+1, want, lines[i])
		}
	}
	r := systest.StatsOf(t, file)
	want := []string{"all packets of one flow in 8", "the first 5 packets of each flow", "at most 100 packets per second", "the weight of 4 packets that were drawn and lost"}
	if diff := cmp.Diff(want, r.NotEstimated); diff != "" {
		t.Error(diff)
	}
	for verdict, packets := range map[string]uint64{"pass": 1000, "redirect": 10, "drop": 1} {
		if e := r.Verdicts[verdict].Estimate; e.Packets != packets {
			t.Errorf("%s: %d packets, want %d", verdict, e.Packets, packets)
		}
	}
	// Verdicts have rates of their own: where all packets with one were kept, there were no others.
	if e := r.Verdicts["drop"].Estimate; e.PacketsHigh != 1 {
		t.Errorf("up to %d packets with the verdict drop, want 1", e.PacketsHigh)
	}
}
