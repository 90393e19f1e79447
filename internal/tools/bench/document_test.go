package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func TestFill(t *testing.T) {
	t.Parallel()
	const before = "Text.\n\n<!-- begin sizing: by hand -->\nold\n<!-- end sizing -->\nMore text.\n"
	r := testReport()
	once, err := r.fill(before)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(once, "old\n") || !strings.HasPrefix(once, "Text.\n\n<!-- begin sizing: by hand -->\nMeasured on ") ||
		!strings.HasSuffix(once, "\n<!-- end sizing -->\nMore text.\n") {
		t.Errorf("filled:\n%s", once)
	}
	if twice, err := r.fill(once); err != nil || twice != once {
		t.Errorf("filled again: %v\n%s", err, cmp.Diff(once, twice))
	}
	for _, wrong := range []string{"no block", "<!-- begin speed: x -->\nno end\n", "<!-- begin speed"} {
		if _, err := r.fill(wrong); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

// The page has tables of files and filled rings too, and what was not measured is missing in them.
func TestSpeed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	testReport().printSpeed(&b)
	for _, want := range []string{
		"\n| | 64 bytes, tmpfs: captured | CPU | 1518 bytes, disk: captured | CPU |\n|---|---|---|---|---|\n",
		"\n| xdpcap --sink, ring | all of 4.000 Mpps | 0.050 us | 90.0 % of 3.000 Mpps | 0.500 us |\n",
		"\n| tcpdump | 60.0 % of 0.800 Mpps | 0.300 us | - | - |\n",
		"\n| xdpcap | 64 | 2 | /dev/null | 24.0 ns | 23.000 Mpps |\n",
		"\n| tcpdump | 64 | 1 | /dev/null | 150.0 ns | 6.000 Mpps |\n",
		"`--sink` keeps 80 % of XDP_DROP's rate beside",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "--format pcap") {
		t.Errorf("a row without figures:\n%s", b.String())
	}
}

// The figures in the documents are those of docs/speed.json: make bench writes them all.
func TestDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	if testnet.Emulated() {
		t.Skip("the emulated machine does not have them")
	}
	root := filepath.Join("..", "..", "..")
	r, err := readReport(filepath.Join(root, "docs", "speed.json"))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := r.chart()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"docs/speed.svg": chart}
	for _, name := range []string{"README.md", "docs/speed.md", "docs/sizing.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if want[name], err = r.fill(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s has other figures than docs/speed.json (-want +got):\n%s", name, diff)
		}
	}
}
