package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report has the results of a guest's tests.
type report struct {
	version string          // the kernel's, as in kernels
	log     io.Writer       // gets the whole output of the tests
	text    strings.Builder // for the user
	release string          // of the kernel that runs
	failed  []string        // packages

	results []*result // in the order in which the tests began
	byName  map[name]*result
}

// A name is that of a test, of a subtest or, with Test == "", of a package.
type name struct {
	Package string // its directory
	Test    string `json:",omitempty"`
}

func (n name) isTest() bool { return n.Test != "" && !strings.Contains(n.Test, "/") }

type result struct {
	name
	action  string // pass, fail or skip; "" while it runs
	output  strings.Builder
	seconds float64
}

func newReport(version string, log io.Writer) *report {
	return &report{version: version, log: log, byName: make(map[name]*result)}
}

// read reads the events until the guest's last one. It fails if that is missing.
func (r *report) read(from io.Reader) error {
	for d := json.NewDecoder(from); ; {
		var e event
		switch err := d.Decode(&e); {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return errors.New("the guest did not get to its end")
		case err != nil:
			return fmt.Errorf("read what the guest reports: %w", err)
		case e.Action == actionDone && e.Output != "":
			return errors.New(e.Output)
		case e.Action == actionDone:
			return nil
		}
		r.add(e)
	}
}

func (r *report) add(e event) {
	io.WriteString(r.log, e.Output)
	switch e.Action {
	case actionKernel:
		r.release = e.Output
	case actionExit:
		r.endPackage(e)
	case "output":
		r.result(e.name).output.WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" { // the package's own result is how its program exits
			test := r.result(e.name)
			test.action, test.seconds = e.Action, e.Elapsed
		}
	}
}

// result returns the result of that name, which it adds if it is new.
func (r *report) result(n name) *result {
	if r.byName[n] == nil {
		r.byName[n] = &result{name: n}
		r.results = append(r.results, r.byName[n])
	}
	return r.byName[n]
}

// endPackage prints the package's line, like go test, and before it the output of failed tests.
func (r *report) endPackage(e event) {
	verdict := "ok  "
	if e.Output != "" {
		verdict = "FAIL"
		r.failed = append(r.failed, e.Package)
		for _, t := range r.results {
			if t.Package == e.Package && (t.action == "fail" || t.action == "") {
				r.text.WriteString(t.output.String())
			}
		}
		fmt.Fprintln(&r.text, e.Output)
	}
	r.result(e.name).action = "pass" // it has ended, and its output was printed
	fmt.Fprintf(&r.text, "%s  Linux %s  %s  %.1fs  %s\n", verdict, r.version, e.Package, e.Elapsed, r.counts(e.Package))
}

// counts returns the numbers of a package's tests by result, without subtests; "" = of all
// packages.
func (r *report) counts(pkg string) string {
	n := make(map[string]int)
	for _, t := range r.results {
		if t.isTest() && (pkg == "" || t.Package == pkg) {
			n[t.action]++
		}
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n["pass"], n["fail"]+n[""], n["skip"])
}

// unfinished returns the output of tests that have not ended.
func (r *report) unfinished() string {
	var all strings.Builder
	for _, t := range r.results {
		if t.action == "" {
			all.WriteString(t.output.String())
		}
	}
	return all.String()
}

// The ten slowest tests of more than five seconds are printed: they are the ones to shorten.
const slowSeconds, mostSlow = 5, 10

// verdict prints the closing lines. It returns an error if a test failed, or if a chosen one did
// not run: because it no longer exists, or was skipped and maySkip is false.
func (r *report) verdict(chosen []test, maySkip bool, took, busy time.Duration) (err error) {
	var slow []*result
	for _, t := range r.results {
		if t.action == "skip" {
			fmt.Fprintf(&r.text, "skipped on Linux %s: %s %s: %s\n", r.version, t.Package, t.Test, t.reason())
		} else if t.isTest() && t.seconds >= slowSeconds {
			slow = append(slow, t)
		}
	}
	slices.SortStableFunc(slow, func(a, b *result) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range slow[:min(len(slow), mostSlow)] {
		fmt.Fprintf(&r.text, "slow on Linux %s: %s %s: %.1fs\n", r.version, t.Package, t.Test, t.seconds)
	}
	fmt.Fprintf(&r.text, "Linux %s (%s): %s, %.0f s with its boot, %.0f s of a processor\n",
		r.version, r.release, r.counts(""), took.Seconds(), busy.Seconds())
	if len(r.failed) > 0 {
		err = fmt.Errorf("tests of %s failed", strings.Join(r.failed, ", "))
	}
	var missing []string
	for _, t := range chosen {
		for _, test := range t.names {
			if result := r.byName[name{t.Package, test}]; result == nil || result.action == "skip" && !maySkip {
				missing = append(missing, t.Package+" "+test)
			}
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, fmt.Errorf("chosen.go has tests that do not exist or were skipped: %s", strings.Join(missing, ", ")))
	}
	return err
}

// reason returns the last line of a skipped test's output, which is why it was skipped.
func (t *result) reason() string {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(t.output.String()), "\n")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return ""
}
