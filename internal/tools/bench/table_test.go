package main

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The report, and the tables for docs/speed.md and docs/sizing.md, are those in
// testdata/report.txt. It has what is missing with its reason, and promises of every verdict.
func TestPrinted(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/report.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := testReport()
	r.Notes = []string{"no time was left"}
	var got strings.Builder
	r.print(&got)
	r.printSpeed(&got)
	r.printSizing(&got)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
