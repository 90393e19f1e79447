// Package clitest is what the tests of commands share: golden files of what they print, and what is
// exported of a snapshot.
package clitest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

var update = flag.Bool("update", false, "write the Golden files")

// Golden compares with a file in testdata, and checks that a line fits into frame.MaxColumns.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > frame.MaxColumns && !strings.HasSuffix(name, ".json") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	Compare(t, name, got)
}

// Compare compares with a file in testdata, whose lines may be as long as they want.
func Compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// IntervalOf is from one snapshot to another two seconds later.
func IntervalOf[S any](before, now S) meter.Interval[S] {
	return meter.Interval[S]{Before: before, Now: now, End: time.Unix(1e9, 0), Took: 2 * time.Second, Elapsed: time.Minute}
}

// CheckReport compares the table and the object with the Golden files.
func CheckReport(t *testing.T, name string, r interface{ WriteTable(w io.Writer) }) {
	t.Helper()
	var out bytes.Buffer
	r.WriteTable(&frame.Page{Writer: &out, Columns: frame.MaxColumns, Blocks: true})
	Golden(t, name+".txt", out.String())
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, "-widest") {
		Golden(t, name+".json", string(text)+"\n")
	}
}

// Linted returns a registry with the metrics of a snapshot, which the linter has passed.
func Linted[S any](t *testing.T, snapshot S, m metrics.Set[S]) *prometheus.Registry {
	t.Helper()
	r := metrics.NewRegistry(metrics.NewCollector(func() (S, error) { return snapshot, nil }, m))
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]promlint.Problem(nil), problems); diff != "" {
		t.Error(diff)
	}
	return r
}

// CheckMetrics checks that a snapshot in which every metric has a value exports all of them, and
// that the linter passes them.
func CheckMetrics[S any](t *testing.T, snapshot S, m metrics.Set[S]) {
	t.Helper()
	families, err := Linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(m.All) {
		t.Errorf("%d families of %d metrics", len(families), len(m.All))
	}
}

// Scraped are the lines of a scrape, one for each series.
func Scraped[S any](t *testing.T, snapshot S, m metrics.Set[S]) string {
	t.Helper()
	families, err := Linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			switch {
			case m.Counter != nil:
				fmt.Fprintf(&lines, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.Counter.GetValue())
			case m.Gauge != nil:
				fmt.Fprintf(&lines, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.Gauge.GetValue())
			case m.Histogram != nil:
				fmt.Fprintf(&lines, "%s{%s} %v %v", f.GetName(), strings.Join(labels, ","), m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
				for _, b := range m.Histogram.Bucket {
					fmt.Fprintf(&lines, " %v:%v", b.GetUpperBound(), b.GetCumulativeCount())
				}
				fmt.Fprintln(&lines)
			}
		}
	}
	return lines.String()
}

// Most is larger than anything that is ever counted: more bytes than 400 Gbit/s make in a year.
const Most = 9_999_999_999_999_999_999
