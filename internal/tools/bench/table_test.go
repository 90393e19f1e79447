package main

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func testSheet() sheet {
	all := tools("bin/xdpcap")
	return sheet{
		size: testnet.MinFrame,
		drop: row{rate: 5e6, unpaced: []float64{9e6, 5e6, 4e6}},
		pass: row{rate: 1e6, unpaced: []float64{1.8e6, 1e6, 0.8e6}},
		rows: []row{
			{tool: &all[0], rate: 1.7e6, cpu: 0.25, unpaced: []float64{3.06e6, 1.7e6, 1.36e6}},
			{tool: &all[1], rate: 0.79e6, cpu: 0.3, unpaced: []float64{1.8e6, 0.79e6, 0.6e6}},
			{tool: &all[2], rate: 0.34e6, cpu: 1.6, unpaced: []float64{1.8e6, 0.6e6, 0.48e6}, lossy: true},
			{tool: &all[3], unpaced: []float64{0.9e6, 0.8e6, 0.64e6}, lossy: true},
			{tool: &all[4], missing: errors.New("exec: \"dumpcap\": executable file not found in $PATH")},
		},
	}
}

func TestTable(t *testing.T) {
	want := strings.TrimPrefix(`
64-byte frames        highest rate    of the     times   reader CPU     times     traffic
                      without loss     limit   xdpdump   per packet    xdpcap       keeps
---------------------------------------------------------------------------------------------
no capture, XDP_DROP    5.000 Mpps     100 %    14.7 x            -         -           -
no capture, XDP_PASS    1.000 Mpps      20 %     2.9 x            -         -           -
xdpcap --sink           1.700 Mpps      34 %     5.0 x      0.25 us     0.8 x        34 %
xdpcap                  0.790 Mpps      16 %     2.3 x      0.30 us     1.0 x        79 %
xdpdump                 0.340 Mpps     6.8 %     1.0 x      1.60 us     5.3 x        60 %
tcpdump                          -         -         -            -         -        80 %
dumpcap                          -         -         -            -         -           -
dumpcap: exec: "dumpcap": executable file not found in $PATH
`, "\n")
	s := testSheet()
	var b strings.Builder
	s.print(&b)
	if diff := cmp.Diff(want, strings.TrimPrefix(b.String(), "\n")); diff != "" {
		t.Errorf("table differs (-want +got):\n%s", diff)
	}
}

func TestPromises(t *testing.T) {
	want := strings.TrimPrefix(`
promised, at 64 bytes:
ok      reader CPU per 64-byte packet                                  0.25 us, at most 0.35 us
ok      --sink: highest rate without loss, of xdpdump's                  5.0 x, at least 4.0 x
ok      --sink: highest rate without loss, of the limit XDP_DROP          34 %, at least 30 %
missed  XDP_PASS: the traffic's own rate falls by                         21 %, at most 20 %
ok      filter tcp port 443: cost per packet over no filter             5.0 ns, at most 8.0 ns
ok      --sample 1000 --sink: rate, of the limit XDP_DROP                 90 %, at least 85 %
missed  stats: cost per packet over an empty program                   16.0 ns, at most 15.0 ns
ok      count: cost per packet over an empty program                   -0.5 ns, at most 15.0 ns
`, "\n")
	var b strings.Builder
	printPromises(&b, []sheet{testSheet(), {size: 1514}}, costs{filter: 5, sample1000: 0.9, stats: 16, count: -0.5})
	if diff := cmp.Diff(want, strings.TrimPrefix(b.String(), "\n")); diff != "" {
		t.Errorf("promises differ (-want +got):\n%s", diff)
	}

	b.Reset()
	printPromises(&b, []sheet{{size: testnet.MinFrame}}, costs{})
	if got := strings.Count(b.String(), "not measured"); got != 8 || strings.Contains(b.String(), "ok") {
		t.Errorf("without figures: %d of 8 promises are not measured:\n%s", got, b.String())
	}
}

func TestOutputFits(t *testing.T) {
	s := testSheet()
	var b strings.Builder
	s.print(&b)
	printNotes(&b, tools("bin/xdpcap"))
	c := costs{filter: -123.4, sample1000: 1, stats: 123.4, count: 123.4, err: errors.New("a reason")}
	c.print(&b)
	printPromises(&b, []sheet{s}, c)
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 100+1 {
			t.Errorf("over 100 columns: %s", line)
		}
	}
}

func TestClosingCounts(t *testing.T) {
	said := map[string]string{
		sinkName:    "xdpcap: listening on rx0\n7 packets captured\n9 packets received by filter\n",
		passName:    "xdpcap: listening on rx0\n7 packets captured\n9 packets received by filter\n",
		xdpdumpName: "listening on rx0, capture size 262144 bytes\n\n7 packets captured\n0 packets dropped by perf ring\n",
		"tcpdump":   "tcpdump: listening on rx0\n7 packets captured\n9 packets received by filter\n",
		"dumpcap":   "Capturing on 'rx0'\nFile: /dev/null\n\rPackets captured: 7\nPackets received/dropped: 9/2\n",
	}
	for _, tl := range tools("bin/xdpcap") {
		if got, err := tl.captured(said[tl.name]); got != 7 || err != nil {
			t.Errorf("%s: captured %d, %v, want 7", tl.name, got, err)
		}
		if _, err := tl.captured("listening on rx0\n"); err == nil {
			t.Errorf("%s: no error without a closing count", tl.name)
		}
	}
}

func TestVersion(t *testing.T) {
	for line, want := range map[string]string{
		"xdpcap v0.1-3-gabc (go1.26, linux/amd64)":           "v0.1-3-gabc",
		"xdpdump version 1.3.1 using libbpf version 1.1.2":   "1.3.1",
		"tcpdump version 4.99.3":                             "4.99.3",
		"Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged).": "4.0.17",
	} {
		if got := version(line); got != want {
			t.Errorf("version(%q) = %q, want %q", line, got, want)
		}
	}
}
