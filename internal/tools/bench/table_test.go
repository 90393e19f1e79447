package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	want := strings.TrimPrefix(`
64-byte frames          highest rate       of   times    reader  traffic quartiles    of it   rounds
                        without loss XDP_DROP xdpdump       CPU    keeps           captured lossless
----------------------------------------------------------------------------------------------------
no capture, XDP_DROP      5.000 Mpps    100 %  12.5 x         -    100 %         -        -        -
no capture, XDP_PASS      1.000 Mpps     20 %   2.5 x         -    100 %         -        -        -
copying alone, XDP_DROP   4.500 Mpps     90 %  11.2 x  0.020 us     90 %   88-91 %        -        -
copying alone, XDP_PASS   0.890 Mpps     18 %   2.2 x  0.030 us     89 %   80-92 %        -        -
xdpcap --sink, ring       4.000 Mpps     80 %  10.0 x  0.040 us     80 %   75-85 %    100 %      4/5
xdpcap --sink, perf       1.500 Mpps     30 %   3.8 x  0.150 us     30 %   28-31 %    100 %      4/5
xdpcap, ring              0.880 Mpps     18 %   2.2 x  0.050 us     88 %   80-90 %    100 %      4/5
xdpdump                   0.400 Mpps    8.0 %   1.0 x  1.600 us     40 %   30-50 %    100 %      4/5
tcpdump                   0.200 Mpps    4.0 %   0.5 x  0.200 us     80 %   70-82 %     70 %      0/5
dumpcap                            -        -       -         -        -         -        -        -
`, "\n")
	var b strings.Builder
	testReport().Frames[0].print(&b)
	if diff := cmp.Diff(want, strings.TrimPrefix(b.String(), "\n")); diff != "" {
		t.Errorf("table differs (-want +got):\n%s", diff)
	}
}

func TestCosts(t *testing.T) {
	var b strings.Builder
	testReport().printCosts(&b)
	for _, want := range []string{
		"reading the clock alone          64   36.0 ns  ",
		"whole packets                    64   60.0 ns 300.0 ns         -       -           -         -\n",
		"whole packets                  1518  160.0 ns        -         -       -           -         -\n",
		"--sample 1000                    64    5.0 ns  -0.5 ns      97 %   96 %*           -         -\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in:\n%s", want, b.String())
		}
	}
}

// What is missing is said with its reason.
func TestMissing(t *testing.T) {
	r := testReport()
	r.Notes = []string{"no time was left"}
	var b strings.Builder
	r.printMissing(&b)
	want := `
missing figures:
    no time was left
    dumpcap, 64 bytes: not installed
    dumpcap, 1518 bytes: not installed
    whole packets, perf, 1518 bytes: interrupted
    -Q out: at egress, ring, 64 bytes: no tcx
    two CPUs, perf: not tried
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOutputFits(t *testing.T) {
	r := testReport()
	r.Costs[3].Missing = strings.Repeat("a long reason, ", 20)
	var b strings.Builder
	r.print(&b)
	(&Report{}).print(&b)
	r.printSizing(&b)
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 100+1 {
			t.Errorf("over 100 columns: %s", line)
		}
	}
}
