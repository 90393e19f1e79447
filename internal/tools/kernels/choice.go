package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A choice selects rows of chosen.go, and tests in them.
type choice struct {
	quick bool
	run   string // a regular expression, as go test -run takes it; "" = all
}

func (c choice) rows(k kernel) []row {
	switch {
	case c.quick && k.arch == arm64:
		return quickOnARM64
	case c.quick:
		return quick
	case k.arch == arm64:
		return slices.Concat(quickOnARM64, quick, more)
	}
	return slices.Concat(quick, more)
}

// tests returns the tests for a kernel, by package in the order of the rows.
func (c choice) tests(k kernel) (tests []test, err error) {
	top, sub, isSub := strings.Cut(c.run, "/")
	if isSub {
		sub = "/" + sub
	}
	matching, err := regexp.Compile(top)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var packages []string
	names := make(map[string][]string) // by package
	for _, r := range c.rows(k) {
		if r.only != "" && r.only != k.version && !k.extra {
			continue
		}
		for name := range strings.FieldsSeq(r.tests) {
			if matching.MatchString(name) && !slices.Contains(names[r.pkg], name) {
				names[r.pkg] = append(names[r.pkg], name)
			}
		}
		if names[r.pkg] != nil && !slices.Contains(packages, r.pkg) {
			packages = append(packages, r.pkg)
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no test that chosen.go has for kernel %s matches -run %q", k.version, c.run)
	}
	for _, pkg := range packages {
		tests = append(tests, test{Package: pkg, Run: "^(" + strings.Join(names[pkg], "|") + ")$" + sub, names: names[pkg]})
	}
	return tests, nil
}
