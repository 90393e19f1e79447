package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stream is what the guest sends: lines of JSON that end as the serial port ends them.
func stream(t *testing.T, events ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteString("\r\n")
	}
	return b.String()
}

// ran has the events of a test that printed these lines.
func ran(pkg, test, action string, seconds float64, output ...string) (events []event) {
	events = append(events, event{Action: "run", name: name{pkg, test}})
	for _, line := range output {
		events = append(events, event{Action: "output", name: name{pkg, test}, Output: line + "\n"})
	}
	if action != "" {
		events = append(events, event{Action: action, name: name{pkg, test}, Elapsed: seconds})
	}
	return events
}

func TestReport(t *testing.T) {
	t.Parallel()
	chosen := []test{{Package: "capture", names: []string{"TestStop", "TestModes"}}, {Package: "internal/meter", names: []string{"TestActions"}}}
	stop := ran("capture", "TestStop", "pass", 0.1, "=== RUN   TestStop", "--- PASS: TestStop (0.10s)")
	skipped := ran("capture", "TestStop", "skip", 0, "    stop_test.go:9: needs a card", "--- SKIP: TestStop (0.00s)")
	modes := ran("capture", "TestModes", "pass", 71.24)
	captured := event{Action: actionExit, name: name{Package: "capture"}, Elapsed: 72}
	metered := append(ran("internal/meter", "TestActions", "pass", 5.1), event{Action: actionExit, name: name{Package: "internal/meter"}, Elapsed: 6})
	end := []event{{Action: actionKernel, Output: "6.12.5-cloud"}, {Action: actionDone}}
	for _, test := range []struct {
		name    string
		events  [][]event
		maySkip bool
		want    string // what is printed
		err     string // a part of the error
	}{
		{
			name:   "slow tests are named, the slowest first",
			events: [][]event{metered, stop, modes, {captured}, end},
			want: `
ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped
ok    Linux 6.12  capture  72.0s  2 passed, 0 failed, 0 skipped
slow on Linux 6.12: capture TestModes: 71.2s
slow on Linux 6.12: internal/meter TestActions: 5.1s
Linux 6.12 (6.12.5-cloud): 3 passed, 0 failed, 0 skipped, 60 s with its boot, 40 s of a processor
`,
		},
		{
			name: "of tests that run at once, what the failed ones print is printed",
			events: [][]event{modes[:1], stop, ran("capture", "TestModes/drop", "fail", 0, "    modes_test.go:44: lost"),
				ran("capture", "TestModes", "fail", 0, "--- FAIL: TestModes (0.00s)"), ran("capture", "", "fail", 0, "FAIL"),
				{{Action: actionExit, name: name{Package: "capture"}, Output: "exit status 1"}}, metered, end},
			want: `
    modes_test.go:44: lost
--- FAIL: TestModes (0.00s)
FAIL
exit status 1
FAIL  Linux 6.12  capture  0.0s  1 passed, 1 failed, 0 skipped
ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped
slow on Linux 6.12: internal/meter TestActions: 5.1s
Linux 6.12 (6.12.5-cloud): 2 passed, 1 failed, 0 skipped, 60 s with its boot, 40 s of a processor
`,
			err: "tests of capture failed",
		},
		{
			name: "a panic ends a test, which then has no result",
			events: [][]event{metered, stop, ran("capture", "TestModes", "", 0, "panic: no card"),
				{{Action: actionExit, name: name{Package: "capture"}, Output: "exit status 2"}}, end},
			want: `
ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped
panic: no card
exit status 2
FAIL  Linux 6.12  capture  0.0s  1 passed, 1 failed, 0 skipped
slow on Linux 6.12: internal/meter TestActions: 5.1s
Linux 6.12 (6.12.5-cloud): 2 passed, 1 failed, 0 skipped, 60 s with its boot, 40 s of a processor
`,
			err: "tests of capture failed",
		},
		{
			name:   "chosen tests must run: one was skipped, and one was renamed",
			events: [][]event{metered, skipped, {captured}, end},
			want: `
ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped
ok    Linux 6.12  capture  72.0s  0 passed, 0 failed, 1 skipped
skipped on Linux 6.12: capture TestStop: stop_test.go:9: needs a card
slow on Linux 6.12: internal/meter TestActions: 5.1s
Linux 6.12 (6.12.5-cloud): 1 passed, 0 failed, 1 skipped, 60 s with its boot, 40 s of a processor
`,
			err: "do not exist or were skipped: capture TestStop, capture TestModes",
		},
		{
			name:    "a kernel that may lack what a test needs",
			events:  [][]event{skipped, {captured}, end},
			maySkip: true,
			want: `
ok    Linux 6.12  capture  72.0s  0 passed, 0 failed, 1 skipped
skipped on Linux 6.12: capture TestStop: stop_test.go:9: needs a card
Linux 6.12 (6.12.5-cloud): 0 passed, 0 failed, 1 skipped, 60 s with its boot, 40 s of a processor
`,
			err: "do not exist or were skipped: capture TestModes, internal/meter TestActions",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport("6.12", io.Discard)
			if err := r.read(strings.NewReader(stream(t, slices.Concat(test.events...)...))); err != nil {
				t.Fatal(err)
			}
			checkError(t, test.err, r.verdict(chosen, test.maySkip, time.Minute, 40*time.Second))
			if diff := cmp.Diff(test.want[1:], r.text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A guest that does not report its end has failed, and the end of its output is kept.
func TestReportIncomplete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ input, err, rest string }{
		{input: "", err: "did not get to its end"},
		{
			input: stream(t, ran("capture", "TestStop", "", 0, "=== RUN   TestStop")...) + `{"Action":"out`,
			err:   "did not get to its end",
			rest:  "=== RUN   TestStop\n",
		},
		{input: stream(t, event{Action: actionDone, Output: "load modules/00-veth: exec format error"}), err: "load modules/00-veth: exec format error"},
	} {
		r := newReport("6.12", io.Discard)
		checkError(t, test.err, r.read(strings.NewReader(test.input)))
		if diff := cmp.Diff(test.rest, r.unfinished()); diff != "" {
			t.Errorf("%q: rest: %s", test.input, diff)
		}
	}
}

// checkError compares an error with a part of its text, "" for no error.
func checkError(t *testing.T, want string, err error) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && err == nil:
		t.Errorf("no error, want one with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error %v, want one with %q", err, want)
	}
}
