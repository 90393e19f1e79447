package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// TestTooLong catches a program that the kernel would refuse, and a graph that would fill the
// memory.
func TestTooLong(t *testing.T) {
	t.Parallel()
	var bytes []string
	for i := range 1450 { // three instructions each, and no hosts, which take seconds to optimise
		bytes = append(bytes, fmt.Sprintf("ether[%d] = 7", i))
	}
	for want, expr := range map[string]string{
		"instructions, the kernel takes 4096": strings.Join(bytes, " or "),
		"tests, at most 16384":                filtertest.ManyHosts(1400),
	} {
		if _, err := Compile(expr, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
