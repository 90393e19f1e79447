package machine

import (
	"runtime"
	"slices"
	"testing"
)

func TestCPUs(t *testing.T) {
	t.Parallel()
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

// The period of a CPU that stays online is one number, and that of an absent CPU is 0.
func TestOnlinePeriod(t *testing.T) {
	t.Parallel()
	first := OnlinePeriod(0)
	if again := OnlinePeriod(0); first == 0 || again != first {
		t.Errorf("the period of CPU 0 is %d, and then %d", first, again)
	}
	if p := OnlinePeriod(1 << 20); p != 0 {
		t.Errorf("a CPU that is not there has the period %d", p)
	}
}
