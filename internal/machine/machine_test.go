package machine

import (
	"runtime"
	"testing"
)

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-1": 2, "0-3,6": 5, "0,2-3,8-15": 11, "": 0, "3-1": 0, "a": 0, "0-": 0, ",": 0,
	} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q has %d CPUs, want %d", list, got, want)
		}
	}
	if n := CPUs(); n < 1 || n < runtime.NumCPU() {
		t.Errorf("%d CPUs are online, and this process may use %d", n, runtime.NumCPU())
	}
}

func TestAvailableMemory(t *testing.T) {
	if n := AvailableMemory(); n < 1<<20 || n > 1<<60 {
		t.Errorf("%d bytes of memory are available", n)
	}
}
