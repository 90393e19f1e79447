package machine

import (
	"runtime"
	"slices"
	"testing"
)

func TestCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-1": {0, 1}, "0-3,6": {0, 1, 2, 3, 6}, "0,2-3": {0, 2, 3}, "": nil, "3-1": nil, "a": nil, "0-": nil, ",": nil,
	} {
		if got := parseCPUs(list); !slices.Equal(got, want) {
			t.Errorf("%q has the CPUs %v, want %v", list, got, want)
		}
	}
	if n := CPUs(); n < 1 || n < runtime.NumCPU() {
		t.Errorf("%d CPUs are online, and this process may use %d", n, runtime.NumCPU())
	}
}
