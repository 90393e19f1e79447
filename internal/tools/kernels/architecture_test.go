package main

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testfile"
)

// Every architecture that packages are made for has a kernel in which tests run.
func TestShippedArchitectures(t *testing.T) {
	shipped := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\bpackage-([a-z0-9]+)\b`).FindAllStringSubmatch(testfile.Read(t, "packaging/packages.mk"), -1) {
		shipped[m[1]] = true
	}
	emulated := make(map[string]bool)
	for _, k := range kernels {
		emulated[k.arch.name] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(shipped)), slices.Sorted(maps.Keys(emulated))); diff != "" {
		t.Errorf("packages are made for (-), and tests run on (+): %s", diff)
	}
}
