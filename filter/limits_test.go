package filter

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// TestTooManyHosts catches a program that the kernel would refuse, and a graph that would fill the memory.
func TestTooManyHosts(t *testing.T) {
	_, err := Compile(filtertest.ManyHosts(800), Options{})
	if err == nil || !strings.Contains(err.Error(), "instructions, the kernel takes 4096") {
		t.Errorf("800 hosts: %v", err)
	}
	if _, err = Compile(filtertest.ManyHosts(5000), Options{}); err == nil || !strings.Contains(err.Error(), "tests, at most") {
		t.Errorf("5000 hosts: %v", err)
	}
}
