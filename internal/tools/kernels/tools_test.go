package main

import (
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The libraries that are read from the files are those that ldd finds.
func TestLibraries(t *testing.T) {
	arch := architectureOf(runtime.GOARCH)
	if arch == nil {
		t.Skip("another architecture than those of the guests")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append([]string{sh}, installed()...) {
		got, err := arch.libraries("/", program)
		if err != nil {
			t.Error(err)
			continue
		}
		out, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`/\S+`).FindAllString(string(out), -1)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: ldd (-) and libraries (+): %s", program, diff)
		}
	}
}

// installed returns the tools that this machine has.
func installed() (paths []string) {
	for _, tool := range tools {
		if path, err := findTool("/", tool); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
