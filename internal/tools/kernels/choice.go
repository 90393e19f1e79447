package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A row chooses tests of a package.
type row struct {
	pkg   string // its directory
	tests string // their names, separated by spaces
}

// A set is which of the chosen tests are run.
type set struct {
	quick bool
	run   string // a regular expression, as go test -run takes it; "" = all
}

// rows returns the rows of the set for a kernel.
func (s set) rows(k kernel) []row {
	switch {
	case s.quick && k.arch.name == "arm64":
		return quickOnARM64
	case s.quick:
		return quick
	}
	return slices.Concat(quick, more)
}

// choose returns the tests of the set that a kernel runs, by package in the order of the list.
func (s set) choose(k kernel) (chosen []test, err error) {
	top, sub, isSub := strings.Cut(s.run, "/")
	names, err := regexp.Compile(top)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, r := range s.rows(k) {
		i := slices.IndexFunc(chosen, func(t test) bool { return t.Package == r.pkg })
		for name := range strings.FieldsSeq(r.tests) {
			if !names.MatchString(name) || leftOut(k, r.pkg, name) {
				continue
			}
			if i < 0 {
				i = len(chosen)
				chosen = append(chosen, test{Package: r.pkg, Binary: k.arch.binary(r.pkg)})
			}
			chosen[i].names = append(chosen[i].names, name)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no test that is chosen for kernel %s matches -run %q", k.version, s.run)
	}
	for i := range chosen {
		chosen[i].Run = "^(" + strings.Join(chosen[i].names, "|") + ")$"
		if isSub {
			chosen[i].Run += "/" + sub
		}
	}
	return chosen, nil
}

// leftOut says whether another kernel of those that are always tested runs the test instead.
func leftOut(k kernel, pkg, name string) bool {
	if k.extra {
		return false
	}
	for version, rows := range alone {
		if version != k.version && slices.ContainsFunc(rows, func(r row) bool { return r.has(pkg, name) }) {
			return true
		}
	}
	return false
}

func (r row) has(pkg, name string) bool {
	return r.pkg == pkg && slices.Contains(strings.Fields(r.tests), name)
}
