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

// A report is what a guest reports of its tests.
type report struct {
	version string
	log     io.Writer       // all that the tests print
	text    strings.Builder // what is printed
	release string          // of the kernel that runs
	failed  []string        // packages

	results []*result // in the order in which they began
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

// read reads the events until the guest ends. It fails if the guest did not get to its end.
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
		r.of(e.name).output.WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" { // the package's own result is how its program exits
			of := r.of(e.name)
			of.action, of.seconds = e.Action, e.Elapsed
		}
	}
}

// of returns the result of that name. It makes one where there is none.
func (r *report) of(n name) *result {
	if r.byName[n] == nil {
		r.byName[n] = &result{name: n}
		r.results = append(r.results, r.byName[n])
	}
	return r.byName[n]
}

// endPackage prints the package's line, as go test does, and before it the output of what failed.
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
	r.of(e.name).action = "pass" // it has ended, and its output was printed
	fmt.Fprintf(&r.text, "%s  Linux %s  %s  %.1fs  %s\n", verdict, r.version, e.Package, e.Elapsed, r.counts(e.Package))
}

// counts says how many tests of a package have had which result, without subtests; "" = of all.
func (r *report) counts(pkg string) string {
	of := make(map[string]int)
	for _, t := range r.results {
		if t.isTest() && (pkg == "" || t.Package == pkg) {
			of[t.action]++
		}
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", of["pass"], of["fail"]+of[""], of["skip"])
}

// rest returns what was printed by tests that have not ended.
func (r *report) rest() string {
	var all strings.Builder
	for _, t := range r.results {
		if t.action == "" {
			all.WriteString(t.output.String())
		}
	}
	return all.String()
}

// The slowest tests are named, so that somebody sees what to shorten.
const slowSeconds, mostSlow = 5, 10

// verdict prints the closing lines, and returns an error if a test failed or one of the chosen did
// not run: it no longer exists, or was skipped and maySkip is false.
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
			if of := r.byName[name{t.Package, test}]; of == nil || of.action == "skip" && !maySkip {
				missing = append(missing, t.Package+" "+test)
			}
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, fmt.Errorf("chosen.go has tests that do not exist or were skipped: %s", strings.Join(missing, ", ")))
	}
	return err
}

// reason returns the last line that a skipped test printed, which is why.
func (t *result) reason() string {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(t.output.String()), "\n")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return ""
}
