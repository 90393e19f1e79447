package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	t.Parallel()
	want := strings.TrimPrefix(`
64-byte frames          highest rate       of   times    reader  traffic quartiles    of it   rounds
                        without loss XDP_DROP xdpdump       CPU    keeps           captured lossless
----------------------------------------------------------------------------------------------------
no capture, XDP_DROP      5.000 Mpps    100 %  12.5 x         -    100 %         -        -        -
no capture, XDP_PASS      1.000 Mpps     20 %   2.5 x         -    100 %         -        -        -
copying alone, XDP_DROP   4.500 Mpps     90 %  11.2 x  0.020 us     90 %   88-91 %        -        -
copying alone, XDP_PASS   0.890 Mpps     18 %   2.2 x  0.030 us     89 %   80-92 %        -        -
xdpcap --sink, ring       4.000 Mpps     80 %  10.0 x  0.040 us     80 %   75-85 %    100 %      4/5
xdpcap --sink, lowprec    4.400 Mpps     88 %  11.0 x  0.020 us     88 %   85-90 %    100 %      5/5
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
	t.Parallel()
	var b strings.Builder
	testReport().printCosts(&b)
	for _, want := range []string{
		"reading the clock alone          64   36.0 ns  ",
		"whole packets                    64   40.0 ns 300.0 ns         -       -           -         -\n",
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
	t.Parallel()
	r := testReport()
	r.Notes = []string{"no time was left"}
	var b strings.Builder
	r.printMissing(&b)
	want := `
missing figures:
    no time was left
    dumpcap, 64 bytes: not installed
    dumpcap, 1518 bytes: not installed
    tcpdump, 1518 bytes, to a disk: no space left on device
    filled rings (1), --format pcap, 64 bytes, to /dev/null: ended at once
    stall, 1518 bytes: only 200000 packets per second were sent
    whole packets, perf, 1518 bytes: interrupted
    -Q out: at egress, ring, 64 bytes: no tcx
    two CPUs, perf: not tried
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Files, filled rings and stalls are tables of their own.
func TestFileTables(t *testing.T) {
	t.Parallel()
	r := testReport()
	var b strings.Builder
	r.printFiles(&b)
	r.printDrains(&b)
	r.printStalls(&b)
	for _, want := range []string{
		"\n64 bytes, to a tmpfs    highest rate ",
		"\nxdpcap --sink, ring       4.000 Mpps     80 %       -  0.050 us     80 %         -    100 %      3/3\n",
		"\ntcpdump                         none        -       -  0.300 us     80 %         -     60 %      0/3\n",
		"\n    xdpcap --sink -w FILE -B 64M\n",
		"\nwhole packets                    64      2  /dev/null    24.0 ns   25.0 ns  23.000 Mpps    96000\n",
		"\n--format pcap                    64      1  /dev/null          -         -            -        0\n",
		"\n    64 bytes, 1.490 Mpps, nobody reads for 1 s: 0 of 11000000 packets lost\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in:\n%s", want, b.String())
		}
	}
}

func TestOutputFits(t *testing.T) {
	t.Parallel()
	r := testReport()
	r.Costs[4].Missing = strings.Repeat("a long reason, ", 20)
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
