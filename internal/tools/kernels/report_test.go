package main

import (
	"encoding/json"
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
func ran(pkg, name, action string, seconds float64, output ...string) (events []event) {
	events = append(events, event{Action: "run", Package: pkg, Test: name})
	for _, line := range output {
		events = append(events, event{Action: "output", Package: pkg, Test: name, Output: line + "\n"})
	}
	if action != "" {
		events = append(events, event{Action: action, Package: pkg, Test: name, Elapsed: seconds})
	}
	return events
}

func TestReport(t *testing.T) {
	t.Parallel()
	chosen := []test{{Package: "capture", names: []string{"TestStop", "TestModes"}}, {Package: "internal/meter", names: []string{"TestActions"}}}
	booted := event{Action: actionKernel, Output: "6.12.5-cloud"}
	done := event{Action: actionDone}
	stop := ran("capture", "TestStop", "pass", 0.1, "=== RUN   TestStop", "--- PASS: TestStop (0.10s)")
	offload := ran("capture", "TestModes/offload", "skip", 0, "    modes_test.go:7: needs a card", "--- SKIP: TestModes/offload (0.00s)")
	modes := ran("capture", "TestModes", "pass", 71.24)
	captured := event{Action: actionExit, Package: "capture", Elapsed: 72}
	actions := ran("internal/meter", "TestActions", "pass", 5.1)
	metered := event{Action: actionExit, Package: "internal/meter", Elapsed: 6}
	for _, test := range []struct {
		name    string
		events  [][]event
		maySkip bool
		want    []string // what is printed
		err     string   // a part of the error
	}{
		{
			name:   "all passed: skipped subtests and slow tests are named, the slowest first",
			events: [][]event{{booted}, stop, actions, {metered}, offload, modes, {captured, done}},
			want: []string{
				"ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped",
				"ok    Linux 6.12  capture  72.0s  2 passed, 0 failed, 0 skipped",
				"skipped on Linux 6.12: capture TestModes/offload: modes_test.go:7: needs a card",
				"slow on Linux 6.12: capture TestModes: 71.2s",
				"slow on Linux 6.12: internal/meter TestActions: 5.1s",
				"Linux 6.12 (6.12.5-cloud): 3 passed, 0 failed, 0 skipped, 60 s with its boot",
			},
		},
		{
			name: "what failed tests print is printed, in tests that run at once",
			events: [][]event{{booted}, actions[:1], stop, ran("internal/meter", "TestActions/drop", "fail", 0, "    drop_test.go:44: lost"),
				ran("internal/meter", "TestActions", "fail", 0, "--- FAIL: TestActions (0.00s)"),
				ran("internal/meter", "", "fail", 0, "FAIL"), {{Action: actionExit, Package: "internal/meter", Output: "exit status 1"}},
				modes, {captured, done}},
			want: []string{
				"    drop_test.go:44: lost", "--- FAIL: TestActions (0.00s)", "FAIL", "exit status 1",
				"FAIL  Linux 6.12  internal/meter  0.0s  0 passed, 1 failed, 0 skipped",
				"ok    Linux 6.12  capture  72.0s  2 passed, 0 failed, 0 skipped",
				"slow on Linux 6.12: capture TestModes: 71.2s",
				"Linux 6.12 (6.12.5-cloud): 2 passed, 1 failed, 0 skipped, 60 s with its boot",
			},
			err: "tests of internal/meter failed",
		},
		{
			name:   "a panic ends a test, which then has no result",
			events: [][]event{stop, ran("capture", "TestModes", "", 0, "panic: no card"), {{Action: actionExit, Package: "capture", Output: "exit status 2"}}, actions, {metered, done}},
			want: []string{
				"panic: no card", "exit status 2",
				"FAIL  Linux 6.12  capture  0.0s  1 passed, 1 failed, 0 skipped",
				"ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped",
				"slow on Linux 6.12: internal/meter TestActions: 5.1s",
				"Linux 6.12 (): 2 passed, 1 failed, 0 skipped, 60 s with its boot",
			},
			err: "tests of capture failed",
		},
		{
			name:   "a chosen test that was skipped, and one that was renamed",
			events: [][]event{ran("capture", "TestStop", "skip", 0, "    stop_test.go:9: is left to Linux 6.1"), {captured}, actions, {metered, done}},
			want: []string{
				"ok    Linux 6.12  capture  72.0s  0 passed, 0 failed, 1 skipped",
				"ok    Linux 6.12  internal/meter  6.0s  1 passed, 0 failed, 0 skipped",
				"skipped on Linux 6.12: capture TestStop: stop_test.go:9: is left to Linux 6.1",
				"slow on Linux 6.12: internal/meter TestActions: 5.1s",
				"Linux 6.12 (): 1 passed, 0 failed, 1 skipped, 60 s with its boot",
			},
			err: "do not exist or were skipped: capture TestStop, capture TestModes",
		},
		{
			name:    "a kernel that may lack what a test needs",
			events:  [][]event{ran("capture", "TestStop", "skip", 0), modes, {captured, done}},
			maySkip: true,
			want: []string{
				"ok    Linux 6.12  capture  72.0s  1 passed, 0 failed, 1 skipped",
				"skipped on Linux 6.12: capture TestStop: ",
				"slow on Linux 6.12: capture TestModes: 71.2s",
				"Linux 6.12 (): 1 passed, 0 failed, 1 skipped, 60 s with its boot",
			},
			err: "do not exist or were skipped: internal/meter TestActions",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, log strings.Builder
			r := newReport("6.12", &out, &log)
			for _, part := range test.events {
				if err := r.read(strings.NewReader(stream(t, part...))); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.complete(); err != nil {
				t.Errorf("complete: %v", err)
			}
			checkError(t, test.err, r.verdict(chosen, test.maySkip, time.Minute))
			if diff := cmp.Diff(strings.Join(test.want, "\n")+"\n", out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A guest that does not report its end has failed, and the end of its output is kept.
func TestReportIncomplete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, input string
		err, rest   string
	}{
		{name: "nothing came", err: "did not get to its end"},
		{
			name:  "it stopped within a test and a line",
			input: stream(t, ran("capture", "TestStop", "", 0, "=== RUN   TestStop")...) + `{"Action":"out`,
			err:   "did not get to its end",
			rest:  "    === RUN   TestStop\n",
		},
		{
			name:  "its own error",
			input: stream(t, event{Action: actionDone, Output: "load modules/00-veth: exec format error"}),
			err:   "load modules/00-veth: exec format error",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport("6.12", &strings.Builder{}, &strings.Builder{})
			if err := r.read(strings.NewReader(test.input)); err != nil {
				t.Fatal(err)
			}
			checkError(t, test.err, r.complete())
			if diff := cmp.Diff(test.rest, r.rest()); diff != "" {
				t.Errorf("rest: %s", diff)
			}
		})
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
