package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A choice is which rows of chosen.go are run, and which of their tests.
type choice struct {
	quick bool
	run   string // a regular expression, as go test -run takes it; "" = all
}

func (c choice) rows(k kernel) []row {
	arm64 := k.arch.name == "arm64"
	switch {
	case c.quick && arm64:
		return quickOnARM64
	case c.quick:
		return quick
	case arm64:
		return slices.Concat(quickOnARM64, quick, more)
	}
	return slices.Concat(quick, more)
}

// tests returns what a kernel runs, by package in the order of the rows.
func (c choice) tests(k kernel) (tests []test, err error) {
	top, sub, isSub := strings.Cut(c.run, "/")
	names, err := regexp.Compile(top)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, r := range c.rows(k) {
		if r.only != "" && r.only != k.version && !k.extra {
			continue
		}
		for name := range strings.FieldsSeq(r.tests) {
			i := slices.IndexFunc(tests, func(t test) bool { return t.Package == r.pkg })
			if !names.MatchString(name) || i >= 0 && slices.Contains(tests[i].names, name) {
				continue
			}
			if i < 0 {
				i = len(tests)
				tests = append(tests, test{Package: r.pkg, Binary: k.arch.binary(r.pkg)})
			}
			tests[i].names = append(tests[i].names, name)
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test that chosen.go has for kernel %s matches -run %q", k.version, c.run)
	}
	for i, t := range tests {
		tests[i].Run = "^(" + strings.Join(t.names, "|") + ")$"
		if isSub {
			tests[i].Run += "/" + sub
		}
	}
	return tests, nil
}
