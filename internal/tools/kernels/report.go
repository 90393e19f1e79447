package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report is the output of a guest, read line by line.
type report struct {
	version string
	out     io.Writer
	release string // of the kernel that runs

	pkg    string   // the package whose output follows
	lines  []string // its output so far, or output that belongs to no package
	counts counts
	name   string            // the test that prints
	last   map[string]string // the last line of each test
	skips  []string          // all skipped tests with their reasons
	slow   []slowTest

	sum    counts
	failed []string // packages
	done   bool
	err    error // that the guest reported
}

// A slowTest took slowSeconds or more. The slowest ones are named, so that somebody sees what to
// shorten before `make test` takes too long.
type slowTest struct {
	name    string // with its package
	seconds float64
}

const slowSeconds, mostSlow = 5, 10

// counts are those of tests, without subtests.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func newReport(version string, out io.Writer) *report {
	return &report{version: version, out: out, last: make(map[string]string)}
}

func (r *report) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.line(strings.TrimSuffix(lines.Text(), "\r"))
	}
	return lines.Err()
}

func (r *report) line(line string) {
	if value, ok := strings.CutPrefix(line, markKernel); ok {
		r.release = value
	} else if value, ok := strings.CutPrefix(line, markPackage); ok {
		r.pkg, r.lines, r.counts = value, nil, counts{}
	} else if value, ok := strings.CutPrefix(line, markEnd); ok {
		r.endPackage(value)
	} else if value, ok := strings.CutPrefix(line, markDone); ok {
		r.done = true
		if value != "" {
			r.err = errors.New(value)
		}
	} else if line != "" {
		r.lines = append(r.lines, line)
		r.testLine(line)
	}
}

// testLine evaluates a line of go test -v.
func (r *report) testLine(line string) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
	sub := strings.HasPrefix(line, " ")
	name, took, _ := strings.Cut(rest, " ")
	var seconds float64
	if _, err := fmt.Sscanf(took, "(%fs)", &seconds); err == nil && !sub && seconds >= slowSeconds {
		r.slow = append(r.slow, slowTest{r.pkg + " " + name, seconds})
	}
	switch kind {
	case "--- PASS":
		if !sub {
			r.counts.passed++
		}
	case "--- FAIL":
		if !sub {
			r.counts.failed++
		}
	case "--- SKIP":
		if !sub {
			r.counts.skipped++
		}
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", r.pkg, name, r.last[name]))
	default:
		if f := strings.Fields(line); len(f) == 3 && f[0] == "===" {
			r.name = f[2]
		} else {
			r.last[r.name] = strings.TrimSpace(line)
		}
	}
}

// endPackage prints the package's line, as go test does.
func (r *report) endPackage(value string) {
	var status int
	var seconds float64
	fmt.Sscan(value, &status, &seconds)
	verdict := "ok  "
	if status != 0 {
		verdict = "FAIL"
		r.failed = append(r.failed, r.pkg)
		for _, line := range r.lines {
			fmt.Fprintln(r.out, line)
		}
	}
	fmt.Fprintf(r.out, "%s  Linux %s  %s  %.1fs  %v\n", verdict, r.version, r.pkg, seconds, r.counts)
	r.sum.passed += r.counts.passed
	r.sum.failed += r.counts.failed
	r.sum.skipped += r.counts.skipped
	r.pkg, r.lines = "", nil
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

// rest returns the end of the output since the last package ended.
func (r *report) rest() string { return tail(r.lines) }

// verdict prints the closing lines, and returns an error if a test failed or none was run.
func (r *report) verdict(took time.Duration) error {
	slices.Sort(r.skips)
	for _, s := range r.skips {
		fmt.Fprintf(r.out, "skipped on Linux %s: %s\n", r.version, s)
	}
	slices.SortStableFunc(r.slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, s := range r.slow[:min(len(r.slow), mostSlow)] {
		fmt.Fprintf(r.out, "slow on Linux %s: %s: %.1fs\n", r.version, s.name, s.seconds)
	}
	fmt.Fprintf(r.out, "Linux %s (%s): %v, %.0f s with its boot\n", r.version, r.release, r.sum, took.Seconds())
	if len(r.failed) > 0 {
		return fmt.Errorf("tests of %s failed", strings.Join(r.failed, ", "))
	}
	if r.sum == (counts{}) {
		return errors.New("no test was run")
	}
	return nil
}
