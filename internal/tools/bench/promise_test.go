package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromises(t *testing.T) {
	want := `
promised, at 64 bytes unless it says otherwise, and what this machine allows at best:
ok     ring: kernel cost per 64-byte packet                       60 ns, at most 80 ns
                                            clock and copying     50 ns
ok     ring: that cost, of perf's                                  20 %, at most 33 %
ok     ring: --sink loses nothing at, of XDP_DROP                  80 %, at least 70 %
                                                copying alone      90 %
ok     ring: --sink's rate without loss, of xdpdump's            10.0 x, at least 4.0 x
bound  ring: traffic under XDP_PASS keeps                          88 %, at least 90 %
                                                copying alone      89 %
ok     ring: that traffic, of the one beside tcpdump             1.10 x, at least 1.00 x
-      ring: that traffic, of the one beside dumpcap          no figure, at least 1.00 x
ok     ring: reader CPU per 64-byte packet                     0.040 us, at most 0.050 us
                                                reading alone  0.020 us
missed ring, 1518 bytes: --sink loses nothing at, of XDP_DROP      40 %, at least 45 %
                                                copying alone      90 %
ok     ring, 1518 bytes: --sink's rate, of the best beside it    1.33 x, at least 1.00 x
ok     ring: two CPUs, of twice one's, by BPF_PROG_RUN             84 %, at least 80 %
ok     --sample 1000: added to XDP_DROP                          5.0 ns, at most 5.0 ns
                                               counting alone    3.0 ns
missed filter that does not match: added to XDP_DROP             8.5 ns, at most 8.0 ns
                                               counting alone    3.0 ns
ok     stats: added to XDP_DROP                                 10.0 ns, at most 15.0 ns
                                               counting alone    3.0 ns
-      count: added to XDP_DROP                               no figure, at most 15.0 ns
                                               counting alone    3.0 ns
-      ring: kernel cost at egress, of that at ingress        no figure, at most 1.10 x
ok     perf: kernel cost at egress, of that at ingress           1.05 x, at most 1.10 x
bound: missed, but here not even the least that a capture has to do keeps the limit.
`
	var b strings.Builder
	testReport().printPromises(&b)
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("promises differ (-want +got):\n%s", diff)
	}
}

// Without figures nothing is kept, and nothing is missed.
func TestPromisesWithoutFigures(t *testing.T) {
	for _, p := range (&Report{}).promises() {
		if p.verdict() != noFigure {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}

// Where packets were lost at every rate, the promise is missed: that is no missing figure.
func TestPromiseAlwaysLost(t *testing.T) {
	r := testReport()
	for i := range r.Frames[1].Rows {
		if row := &r.Frames[1].Rows[i]; row.Name == sinkName(ring) {
			row.Rate, row.OfDrop, row.Captured = 0, 0, 0.8
		}
	}
	for _, p := range r.promises() {
		if strings.HasPrefix(p.what, "ring, 1518 bytes") && p.verdict() != "missed" {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}
