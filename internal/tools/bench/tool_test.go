package main

import (
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestClosingCounts(t *testing.T) {
	t.Parallel()
	const own = "xdpcap: listening on rx0\n7 packets captured\n9 packets received by filter\n"
	said := map[string]string{
		xdpdumpName:  "listening on rx0, capture size 262144 bytes\n\n7 packets captured\n0 packets dropped by perf ring\n",
		tcpdumpName:  "tcpdump: listening on rx0\n7 packets captured\n9 packets received by filter\n",
		dumpcapName:  "Capturing on 'rx0'\nFile: /dev/null\n\rPackets captured: 7\nPackets received/dropped: 9/2\n",
		netsniffName: "Running! Hang up with ^C!\n\n\r           7  packets incoming (1 unread on exit)\n\r           8  packets passed filter\n",
	}
	for _, tl := range append((&program{path: "bin/xdpcap"}).tools(), others()...) {
		text, ok := said[tl.name]
		if !ok {
			text = own
		}
		if got, err := tl.captured(text); got != 7 || err != nil {
			t.Errorf("%s: captured %d, %v, want 7", tl.name, got, err)
		}
		if _, err := tl.captured("listening on rx0\n"); err == nil {
			t.Errorf("%s: no error without a closing count", tl.name)
		}
	}
}

// A tool with another file is a copy, and its command line has no name of the moment.
func TestToolTo(t *testing.T) {
	t.Parallel()
	own := (&program{path: "xdpcap"}).tool("", ring, xdp.Drop, "-i", rxName)
	other := own.to("/tmp/dir/out")
	if got, want := other.commandLine(), "xdpcap --transport ring --sink -w FILE -i rx0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if other.file != "/tmp/dir/out" || !slices.Contains(other.args, other.file) || own.file != "" || !slices.Contains(own.args, nowhere) {
		t.Errorf("%+v, %+v", other, own)
	}
}

func TestParseCounts(t *testing.T) {
	t.Parallel()
	c, ok := parseCounts("2 packets captured\nxdpcap: 20 seen = 1 filtered out + 2 not sampled + 3 lost + 4 invalid + 5 captured\n")
	if want := (counts{seen: 20, read: 15, lost: 7}); !ok || c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if _, ok := parseCounts("xdpcap: listening on rx0\n"); ok {
		t.Error("counts of nothing")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"xdpcap v0.1-3-gabc (go1.26, linux/amd64)":           "v0.1-3-gabc",
		"xdpdump version 1.3.1 using libbpf version 1.1.2":   "1.3.1",
		"tcpdump version 4.99.3":                             "4.99.3",
		"Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged).": "4.0.17",
		"netsniff-ng 0.6.8 (Flutternozzle), Git id: (none)":  "0.6.8",
	} {
		if got := version(line); got != want {
			t.Errorf("version(%q) = %q, want %q", line, got, want)
		}
	}
}
