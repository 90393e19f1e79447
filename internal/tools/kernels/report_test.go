package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines ends each line as the serial port does.
func lines(l ...string) string { return strings.Join(l, "\r\n") + "\r\n" }

var passing = []string{
	"", "## kernel 6.12.5-cloud",
	"", "## package capture",
	"=== RUN   TestStop",
	"--- PASS: TestStop (0.10s)",
	"=== RUN   TestModes",
	"=== RUN   TestModes/native",
	"=== RUN   TestModes/offload",
	"    modes_test.go:7: needs a card",
	"--- PASS: TestModes (0.10s)",
	"    --- PASS: TestModes/native (0.05s)",
	"    --- SKIP: TestModes/offload (0.05s)",
	"PASS", "", "## end 0 1.5",
}

var failing = []string{
	"", "## package internal/meter",
	"=== RUN   TestActions",
	"    actions_test.go:44: drop",
	"--- FAIL: TestActions (0.10s)",
	"=== RUN   TestPools",
	"    pools_test.go:88: needs a vmxnet3 device",
	"--- SKIP: TestPools (0.00s)",
	"FAIL", "", "## end 1 2.5",
}

func TestReport(t *testing.T) {
	done := []string{"", "## done "}
	for _, test := range []struct {
		name  string
		input [][]string
		want  []string // what is printed
		err   string   // a part of the error
	}{
		{
			name:  "all passed",
			input: [][]string{passing, done},
			want: []string{
				"ok    Linux 6.12  capture  1.5s  2 passed, 0 failed, 0 skipped",
				"skipped on Linux 6.12: capture TestModes/offload: modes_test.go:7: needs a card",
				"Linux 6.12 (6.12.5-cloud): 2 passed, 0 failed, 0 skipped, 60 s with its boot",
			},
		},
		{
			name:  "a failed package's output is printed, the others' is not",
			input: [][]string{passing, failing, done},
			want: []string{
				"ok    Linux 6.12  capture  1.5s  2 passed, 0 failed, 0 skipped",
				"=== RUN   TestActions",
				"    actions_test.go:44: drop",
				"--- FAIL: TestActions (0.10s)",
				"=== RUN   TestPools",
				"    pools_test.go:88: needs a vmxnet3 device",
				"--- SKIP: TestPools (0.00s)",
				"FAIL",
				"FAIL  Linux 6.12  internal/meter  2.5s  0 passed, 1 failed, 1 skipped",
				"skipped on Linux 6.12: capture TestModes/offload: modes_test.go:7: needs a card",
				"skipped on Linux 6.12: internal/meter TestPools: pools_test.go:88: needs a vmxnet3 device",
				"Linux 6.12 (6.12.5-cloud): 2 passed, 1 failed, 1 skipped, 60 s with its boot",
			},
			err: "tests of internal/meter failed",
		},
		{
			name:  "a package that ended by a signal has failed",
			input: [][]string{{"## package capture", "=== RUN   TestStop", "--- PASS: TestStop (0.10s)", "## end -1 0.5"}, done},
			want: []string{
				"=== RUN   TestStop",
				"--- PASS: TestStop (0.10s)",
				"FAIL  Linux 6.12  capture  0.5s  1 passed, 0 failed, 0 skipped",
				"Linux 6.12 (): 1 passed, 0 failed, 0 skipped, 60 s with its boot",
			},
			err: "tests of capture failed",
		},
		{
			name: "what takes long is named, the slowest first, without subtests",
			input: [][]string{{"## package capture", "--- PASS: TestStop (5.10s)", "    --- PASS: TestStop/all (5.00s)",
				"--- PASS: TestRun (4.99s)", "--- PASS: TestRing (71.24s)", "PASS", "## end 0 90.5"}, done},
			want: []string{
				"ok    Linux 6.12  capture  90.5s  3 passed, 0 failed, 0 skipped",
				"slow on Linux 6.12: capture TestRing: 71.2s",
				"slow on Linux 6.12: capture TestStop: 5.1s",
				"Linux 6.12 (): 3 passed, 0 failed, 0 skipped, 60 s with its boot",
			},
		},
		{
			name:  "no test matched",
			input: [][]string{{"## package capture", "PASS", "## end 0 0.5"}, done},
			want: []string{
				"ok    Linux 6.12  capture  0.5s  0 passed, 0 failed, 0 skipped",
				"Linux 6.12 (): 0 passed, 0 failed, 0 skipped, 60 s with its boot",
			},
			err: "no test was run",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport("6.12", &out)
			for _, part := range test.input {
				if err := r.read(strings.NewReader(lines(part...))); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.complete(); err != nil {
				t.Errorf("complete: %v", err)
			}
			checkError(t, test.err, r.verdict(time.Minute))
			if diff := cmp.Diff(strings.Join(test.want, "\n")+"\n", out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A guest that does not say that it is done has failed, and the end of its output is kept.
func TestReportIncomplete(t *testing.T) {
	for _, test := range []struct {
		name      string
		input     []string
		err, rest string
	}{
		{
			name: "nothing came",
			err:  "did not get to its end",
		},
		{
			name:  "it stopped within a package",
			input: []string{"## package capture", "=== RUN   TestStop"},
			err:   "did not get to its end",
			rest:  "    === RUN   TestStop\n",
		},
		{
			name:  "its own error",
			input: []string{"## kernel 6.12.5", "## done load modules/00-veth: exec format error"},
			err:   "load modules/00-veth: exec format error",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport("6.12", &strings.Builder{})
			if err := r.read(strings.NewReader(lines(test.input...))); err != nil {
				t.Fatal(err)
			}
			checkError(t, test.err, r.complete())
			if diff := cmp.Diff(test.rest, r.rest()); diff != "" {
				t.Errorf("rest: %s", diff)
			}
		})
	}
}
