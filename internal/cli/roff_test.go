package cli

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testfile"
)

// Text that has a meaning in roff is shown unchanged.
func TestRoff(t *testing.T) {
	t.Parallel()
	var r roff
	r.macro("TH", "X", "8")
	r.macro("SH", "X")
	lines := []string{`.dot \n(xx "quoted" it's a --flag`, "'apostrophe ~ ^ `accents`"}
	for _, line := range lines {
		r.line(line)
		r.macro("PP")
	}
	shown, warnings := testfile.Formatted(t, r.Bytes())
	for _, line := range lines {
		if !strings.Contains(shown, line) {
			t.Errorf("no %q in %s%s", line, shown, warnings)
		}
	}
}
