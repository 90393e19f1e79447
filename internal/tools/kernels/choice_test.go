package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each test of the lists exists and is chosen once, and those of `make test` are few.
func TestChosen(t *testing.T) {
	t.Parallel()
	existing := make(map[string][]string) // names by package
	for list, rows := range map[string][]row{"quick and more": slices.Concat(quick, more), "quickOnARM64": quickOnARM64} {
		chosen := make(map[string]bool)
		for _, r := range rows {
			if existing[r.pkg] == nil {
				existing[r.pkg] = testsOf(t, filepath.Join("../../..", r.pkg))
			}
			if !slices.Contains([]string{"", "6.1", "6.12"}, r.only) {
				t.Errorf("%s: only %q", r.pkg, r.only)
			}
			for name := range strings.FieldsSeq(r.tests) {
				if !slices.Contains(existing[r.pkg], name) {
					t.Errorf("%s: %s has no %s", list, r.pkg, name)
				}
				if chosen[r.pkg+name] {
					t.Errorf("%s: %s %s is there twice", list, r.pkg, name)
				}
				chosen[r.pkg+name] = true
			}
		}
	}
	for _, version := range []string{"6.1", "6.12", "arm64"} {
		n := 0
		for _, r := range (choice{quick: true}).rows(kernels[slices.Index(known(), version)]) {
			if r.only == "" || r.only == version {
				n += len(strings.Fields(r.tests))
			}
		}
		if n > 40 {
			t.Errorf("the quick choice for %s has %d tests, more than 40", version, n)
		}
	}
}

// testsOf returns the names of the tests of the package in a directory.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kernel string
		choice choice
		want   string // the package and what go test -run gets
		err    string
	}{
		{kernel: "6.1", choice: choice{quick: true, run: "Enter"}, want: "internal/privilege ^(TestEnter)$"},
		{kernel: "6.1", choice: choice{quick: true, run: "Harmless"}, err: `no test that chosen.go has for kernel 6.1 matches -run "Harmless"`},
		{kernel: "6.1", choice: choice{run: "Harmless|ProgramLo"}, want: "capture ^(TestProgramLost|TestProgramLongest)$ internal/drops ^(TestHarmless)$"},
		{kernel: "6.12", choice: choice{run: "TestTransports/perf"}, want: "capture ^(TestTransports)$/perf"},
		{kernel: "6.12", choice: choice{run: "TestMonitorRecord$"}, err: "no test that chosen.go has for kernel 6.12"}, // only 6.1's
		{kernel: "6.1", choice: choice{run: "TestMonitorRecord$"}, want: "internal/systest/counters ^(TestMonitorRecord)$"},
		{kernel: "newest", choice: choice{run: "TestMonitorRecord$"}, want: "internal/systest/counters ^(TestMonitorRecord)$"},
		{kernel: "arm64", choice: choice{quick: true, run: "SharedRingShort"}, want: "capture/internal/ring ^(TestSharedRingShort)$"},
		{kernel: "arm64", choice: choice{run: "SharedRing$|Harmless"}, want: "capture/internal/ring ^(TestSharedRing)$ internal/drops ^(TestHarmless)$"}, // once, though it is in two lists
		{kernel: "6.1", choice: choice{run: "("}, err: "-run: error parsing regexp"},
	} {
		kernels, err := choose([]string{test.kernel})
		if err != nil {
			t.Fatal(err)
		}
		tests, err := test.choice.tests(kernels[0])
		checkError(t, test.err, err)
		var got []string
		for _, of := range tests {
			got = append(got, of.Package, of.Run)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s, %+v: %s", test.kernel, test.choice, diff)
		}
	}
}
