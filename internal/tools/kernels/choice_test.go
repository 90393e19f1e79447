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
	for _, k := range mustChoose(t, "6.1", "6.12", "arm64") {
		if n := len(namesOf(t, choice{quick: true}, k)); n > 40 {
			t.Errorf("the quick choice for %s has %d tests, more than 40", k.version, n)
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

func mustChoose(t *testing.T, versions ...string) []kernel {
	t.Helper()
	kernels, err := choose(versions)
	if err != nil {
		t.Fatal(err)
	}
	return kernels
}

func namesOf(t *testing.T, c choice, k kernel) (names []string) {
	t.Helper()
	tests, err := c.tests(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range tests {
		names = append(names, of.names...)
	}
	return names
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		choice choice
		kernel string
		want   string // the package and what go test -run gets
		err    string
	}{
		{name: "quick", choice: choice{quick: true, run: "Enter"}, kernel: "6.1", want: "internal/privilege ^(TestEnter)$"},
		{name: "not quick", choice: choice{quick: true, run: "TestHarmless"}, kernel: "6.1", err: `no test that chosen.go has for kernel 6.1 matches -run "TestHarmless"`},
		{name: "more", choice: choice{run: "TestHarmless"}, kernel: "6.1", want: "internal/drops ^(TestHarmless)$"},
		{name: "several, in the order of the rows", choice: choice{run: "^TestProgram(Lost|Longest|Sample)$"}, kernel: "6.12", want: "capture ^(TestProgramLost|TestProgramLongest|TestProgramSample)$"},
		{name: "subtests", choice: choice{run: "TestTransports/perf"}, kernel: "6.12", want: "capture ^(TestTransports)$/perf"},
		{name: "left to another kernel", choice: choice{run: "TestRecords$"}, kernel: "6.12", err: "no test that chosen.go has for kernel 6.12"},
		{name: "and run there", choice: choice{run: "TestRecords$"}, kernel: "6.1", want: "internal/meter ^(TestRecords)$"},
		{name: "left to none by a third kernel", choice: choice{run: "TestRecords$"}, kernel: "newest", want: "internal/meter ^(TestRecords)$"},
		{name: "quick on arm64", choice: choice{quick: true, run: "SharedRingShort"}, kernel: "arm64", want: "capture ^(TestSharedRingShort)$"},
		{name: "all on arm64, where a test has two rows", choice: choice{run: "SharedRing$|Harmless"}, kernel: "arm64", want: "capture ^(TestSharedRing)$ internal/drops ^(TestHarmless)$"},
		{name: "no expression", choice: choice{run: "("}, kernel: "6.1", err: "-run: error parsing regexp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tests, err := test.choice.tests(mustChoose(t, test.kernel)[0])
			checkError(t, test.err, err)
			var got []string
			for _, of := range tests {
				got = append(got, of.Package, of.Run)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
