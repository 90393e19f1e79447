package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// testResults returns results with figures that are easy to compute with.
func testResults(t *testing.T) *results {
	t.Helper()
	r, err := readResults("testdata/results.txt")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// set replaces what was measured.
func (r *results) set(name, unit string, x float64) { r.values[name][unit] = []float64{x} }

// Rows are measured in turn, until one fails. What has xdpcap in it is in the results of that
// xdpcap, the rest in all; and what was written is read back equal, because the documents are made
// of files.
func TestMeasure(t *testing.T) {
	t.Parallel()
	var written, other strings.Builder
	b := &bench{chosen: regexp.MustCompile("^[^N]"), programs: []*program{{results: results{out: &written}}, {results: results{out: &other}}}}
	order, times := "", 0.0
	rows := []*row{
		{name: named("Speed", "of two"), measure: func(t testnet.TB) *benchfmt.Result {
			order += "a"
			times++
			return measured(1000, of(10*times, unitPPS), of(0.1+0.2, unitNsPacket), of(median(nil), unitLost))
		}},
		{name: "Wrong", command: "tool -w FILE", of: b.programs[0], measure: func(t testnet.TB) *benchfmt.Result {
			order += "b"
			t.Fatalf("not\ninstalled")
			return nil
		}},
		{name: "Own", command: "xdpcap", of: b.programs[1], measure: func(t testnet.TB) *benchfmt.Result {
			order += "c"
			return measured(1, of(7, unitLost))
		}},
	}
	rows = append(rows, &row{name: "Not chosen"}) // would panic if it was measured
	b.measure(t.Context(), 3, rows)
	ended, end := context.WithCancel(t.Context())
	end()
	b.measure(ended, 2, []*row{{name: "Late"}})
	if order != "abcacac" {
		t.Errorf("measured in the order %s", order)
	}
	const want = `BenchmarkSpeed/of_two 1000 10 pps 0.3 ns/packet
--- SKIP: Wrong: not installed
BenchmarkSpeed/of_two 1000 20 pps 0.3 ns/packet
BenchmarkSpeed/of_two 1000 30 pps 0.3 ns/packet
--- SKIP: Late: no time was left
`
	if diff := cmp.Diff(want, written.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(other.String(), "\n# Own: xdpcap\nBenchmarkOwn 1 7 lost\n") || strings.Contains(other.String(), "Wrong") {
		t.Errorf("of the other xdpcap:\n%s", other.String())
	}
	path := filepath.Join(t.TempDir(), "results.txt")
	if err := os.WriteFile(path, []byte("cpu: Some CPU\n"+written.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.programs[0].values, r.values); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if want := (map[string]string{"cpu": "Some CPU"}); !maps.Equal(r.head, want) || r.figure("Speed/of_two", unitPPS) != 20 {
		t.Errorf("%v, %v", r.head, r.figure("Speed/of_two", unitPPS))
	}
	if _, err := readResults("testdata/report.txt"); err == nil {
		t.Error("a file without a measurement was read")
	}
}

// The promises, and the tables for docs/speed.md and docs/sizing.md, are those in
// testdata/report.txt. There are promises of every verdict, and figures that are missing.
func TestPrinted(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/report.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := testResults(t)
	var got strings.Builder
	r.printPromises(&got, nil)
	r.printSpeed(&got)
	r.printSizing(&got)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOutputFits(t *testing.T) {
	t.Parallel()
	r := testResults(t)
	var b strings.Builder
	r.printPromises(&b, nil)
	(&results{}).printPromises(&b, nil)
	r.printSizing(&b)
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 100+1 {
			t.Errorf("over 100 columns: %s", line)
		}
	}
}
