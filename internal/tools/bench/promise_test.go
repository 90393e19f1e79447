package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromises(t *testing.T) {
	t.Parallel()
	want := `
       promised                                             limit  measured     bound
--------------------------------------------------------------------------------------------------
ok     program: 64 bytes                                 <= 40 ns     40 ns     39 ns  clock, copy
missed program: 300 bytes                                <= 80 ns     81 ns
bound  program: 512 bytes                               <= 105 ns    110 ns    116 ns  clock, copy
ok     program: 64 bytes, -j host_lowprec                <= 22 ns     10 ns      3 ns  copying
ok     program: 64 bytes, of what perf takes              <= 33 %      13 %
bound  --sink: of XDP_DROP, at its 85 ns                  >= 63 %      63 %      59 %  clock, copy
missed --sink -j host_lowprec: the same                   >= 78 %      76 %      79 %  copying
ok     --sink: rate without loss, of xdpdump's           >= 4.0 x    10.0 x
bound  XDP_PASS: the traffic keeps                        >= 93 %      88 %      89 %  copying
ok     XDP_PASS: traffic, of that beside tcpdump        >= 1.00 x    1.10 x
-      XDP_PASS: traffic, of that beside dumpcap        >= 1.00 x         -
missed --sink, 1518 bytes: of XDP_DROP                    >= 45 %      40 %      90 %  copying
ok     --sink, 1518 bytes: rate, of the best other      >= 1.00 x    1.33 x
missed reader: 64 bytes, traffic with --sink             <= 20 ns     40 ns     20 ns  reading
ok     reader: 64 bytes, one filled ring                 <= 20 ns     18 ns      8 ns  copying
missed reader: 64 bytes, two filled rings                <= 20 ns     24 ns
ok     reader: 1518 bytes, traffic with --sink          <= 180 ns     80 ns     40 ns  reading
-      reader: 1518 bytes, one filled ring              <= 180 ns         -
-      reader: 1518 bytes, two filled rings             <= 180 ns         -
-      reader: 64 bytes, a filled ring, --format pcap    <= 30 ns         -      8 ns  copying
ok     packets/s drained: 64 bytes, rings: 1, /dev/null >= 14.88 M   30.00 M  100.00 M  copying
ok     packets/s drained: 64 bytes, rings: 2, /dev/null >= 14.88 M   23.00 M
-      packets/s drained: 64 bytes, rings: 1, tmpfs    >= 14.88 M         -
bound  packets/s drained: 64 bytes, rings: 2, tmpfs    >= 14.88 M   13.00 M   12.00 M  copying
ok     lost of 1.5 Mpps of 64 bytes, stall of 1 s            <= 0         0
-      lost of 0.3 Mpps of 1518 bytes, stall of 1 s          <= 0         -
ok     two CPUs, of twice one's, by BPF_PROG_RUN          >= 80 %      84 %
ok     --sample 1000: added to XDP_DROP                 <= 5.0 ns    5.0 ns    3.0 ns  counting
missed filter that does not match: added to XDP_DROP    <= 8.0 ns    8.5 ns    3.0 ns  counting
ok     stats: added to XDP_DROP                        <= 15.0 ns   10.0 ns    3.0 ns  counting
-      count: added to XDP_DROP                        <= 15.0 ns         -    3.0 ns  counting
-      ring: kernel cost at egress, of that at ingress  <= 1.10 x         -
ok     perf: kernel cost at egress, of that at ingress  <= 1.10 x    1.05 x

bound: what this machine allows: a program or a thread that only copies, that only reads the clock
    and copies, a thread that only reads copies, a program that only counts. A promise that is
    missed where the bound does not keep it either says "bound".
of XDP_DROP: D / (D + c). Here D, a packet under XDP_DROP, takes 200 ns, and c, what --sink adds to
it, 50 ns, with -j host_lowprec 27 ns; the promise is for a D of 85 ns.
`
	var b strings.Builder
	testReport().printPromises(&b)
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("promises differ (-want +got):\n%s", diff)
	}
}

// With an earlier report, each promise has two figures.
func TestPromisesBefore(t *testing.T) {
	t.Parallel()
	r := testReport()
	r.Before = testReport()
	r.Before.Costs[4].KernelNs = ns(60)
	var b strings.Builder
	r.printPromises(&b)
	if want := "\nok     program: 64 bytes                                 <= 40 ns     40 ns     60 ns     39 ns  clock, copy\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no line %q in:\n%s", want, b.String())
	}
}

// Without figures no promise is kept, and none is missed.
func TestPromisesWithoutFigures(t *testing.T) {
	t.Parallel()
	for _, p := range (&Report{}).promises() {
		if p.verdict() != noFigure {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}

// If packets were lost at every rate, the promise is missed: that is not a missing figure.
func TestPromiseAlwaysLost(t *testing.T) {
	t.Parallel()
	r := testReport()
	for i := range r.Frames[1].Rows {
		if row := &r.Frames[1].Rows[i]; row.Name == sinkName(ring) {
			row.Rate, row.OfDrop, row.Captured = 0, 0, 0.8
		}
	}
	for _, p := range r.promises() {
		if strings.HasPrefix(p.what, "--sink, 1518 bytes") && p.verdict() != "missed" {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}
