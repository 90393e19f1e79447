package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// manyBytes is an expression of n tests, each of another byte. They compile to two instructions
// each.
func manyBytes(n int) string {
	var tests []string
	for i := range n {
		tests = append(tests, fmt.Sprintf("ether[%d] = 7", i))
	}
	return strings.Join(tests, " or ")
}

// TestTooLong catches a program that the kernel would refuse, and a graph that would fill the
// memory.
func TestTooLong(t *testing.T) {
	t.Parallel()
	for want, expr := range map[string]string{
		"instructions, the kernel takes 4096": manyBytes(2100),
		"more than 16384 tests":               filtertest.ManyHosts(1400),
	} {
		if _, err := Compile(expr, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
