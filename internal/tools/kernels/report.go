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
	out     io.Writer // what is printed
	log     io.Writer // all that the tests print
	release string    // of the kernel that runs

	results []*result
	byName  map[string]*result // a package's name is its directory, a test's the package's, a space and its own
	done    bool               // the guest got to its end
	err     error              // that the guest reported
}

// A result is that of a test, a subtest or, with test == "", a package.
type result struct {
	pkg, test string
	action    string // pass, fail or skip; "" while it runs
	output    []string
	seconds   float64
}

func (r *result) isSubtest() bool { return strings.Contains(r.test, "/") }

// isTest tells tests from subtests and packages.
func (r *result) isTest() bool { return r.test != "" && !r.isSubtest() }

func newReport(version string, out, log io.Writer) *report {
	return &report{version: version, out: out, log: log, byName: make(map[string]*result)}
}

// read reads the events until the guest ends.
func (r *report) read(from io.Reader) error {
	for d := json.NewDecoder(from); ; {
		var e event
		switch err := d.Decode(&e); {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil // complete says whether it was the end
		case err != nil:
			return fmt.Errorf("read what the guest reports: %w", err)
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
	case actionDone:
		r.done = true
		if e.Output != "" {
			r.err = errors.New(e.Output)
		}
	case "output":
		of := r.of(e.Package, e.Test)
		of.output = append(of.output, e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" { // the package's own result is how its program exits
			of := r.of(e.Package, e.Test)
			of.action, of.seconds = e.Action, e.Elapsed
		}
	}
}

// of returns the result of a test, or of a package if test is "". It makes one where there is none.
func (r *report) of(pkg, test string) *result {
	name := strings.TrimSpace(pkg + " " + test)
	if r.byName[name] == nil {
		r.byName[name] = &result{pkg: pkg, test: test}
		r.results = append(r.results, r.byName[name])
	}
	return r.byName[name]
}

// endPackage prints the package's line, as go test does, and before it the output of what failed.
func (r *report) endPackage(e event) {
	p := r.of(e.Package, "")
	p.action, p.seconds = "pass", e.Elapsed
	verdict := "ok  "
	if e.Output != "" {
		verdict, p.action = "FAIL", "fail"
		for _, t := range r.results {
			if t.pkg == e.Package && (t.action == "fail" || t.action == "") {
				fmt.Fprint(r.out, strings.Join(t.output, ""))
			}
		}
		fmt.Fprintln(r.out, e.Output)
	}
	fmt.Fprintf(r.out, "%s  Linux %s  %s  %.1fs  %s\n", verdict, r.version, e.Package, e.Elapsed, r.counts(e.Package))
}

// counts says how many tests of a package have had which result, without subtests; "" = of all.
func (r *report) counts(pkg string) string {
	of := make(map[string]int)
	for _, t := range r.results {
		if t.isTest() && (pkg == "" || t.pkg == pkg) {
			of[t.action]++
		}
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", of["pass"], of["fail"]+of[""], of["skip"])
}

// complete returns why the guest did not get to its end, nil if it did.
func (r *report) complete() error {
	if r.err != nil {
		return r.err
	}
	if !r.done {
		return errors.New("the guest did not get to its end")
	}
	return nil
}

// rest returns the end of what was printed by tests that have not ended.
func (r *report) rest() string {
	var all []string
	for _, t := range r.results {
		if t.action == "" {
			all = append(all, strings.Split(strings.TrimSuffix(strings.Join(t.output, ""), "\n"), "\n")...)
		}
	}
	return tail(all)
}

// The slowest tests are named, so that somebody sees what to shorten.
const slowSeconds, mostSlow = 5, 10

// verdict prints the closing lines, and returns an error if a test failed or one of the chosen did
// not run: it no longer exists, or was skipped and maySkip is false.
func (r *report) verdict(chosen []test, maySkip bool, took, busy time.Duration) error {
	var failed, missing []string
	var slow []*result
	for _, t := range r.results {
		switch {
		case t.action == "skip":
			fmt.Fprintf(r.out, "skipped on Linux %s: %s %s: %s\n", r.version, t.pkg, t.test, t.reason())
		case t.test == "" && t.action != "pass":
			failed = append(failed, t.pkg)
		case t.isTest() && t.seconds >= slowSeconds:
			slow = append(slow, t)
		}
	}
	slices.SortStableFunc(slow, func(a, b *result) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range slow[:min(len(slow), mostSlow)] {
		fmt.Fprintf(r.out, "slow on Linux %s: %s %s: %.1fs\n", r.version, t.pkg, t.test, t.seconds)
	}
	fmt.Fprintf(r.out, "Linux %s (%s): %s, %.0f s with its boot, %.0f s of a processor\n",
		r.version, r.release, r.counts(""), took.Seconds(), busy.Seconds())
	for _, t := range chosen {
		for _, name := range t.names {
			if of := r.byName[t.Package+" "+name]; of == nil || of.action == "skip" && !maySkip {
				missing = append(missing, t.Package+" "+name)
			}
		}
	}
	var errs []error
	if len(failed) > 0 {
		errs = append(errs, fmt.Errorf("tests of %s failed", strings.Join(failed, ", ")))
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("chosen.go has tests that do not exist or were skipped: %s", strings.Join(missing, ", ")))
	}
	return errors.Join(errs...)
}

// reason returns the last line that a skipped test printed, which is why.
func (t *result) reason() string {
	for _, line := range slices.Backward(t.output) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return ""
}
