package frame

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A list is completed after its last comma; everything before it is kept.
func TestCompleteList(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string][]string{
		"":           {"aborted", "drop", "pass", "tx", "redirect"},
		"dr":         {"aborted", "drop", "pass", "tx", "redirect"}, // the shell chooses
		"drop,":      {"drop,aborted", "drop,pass", "drop,tx", "drop,redirect"},
		"tx,drop,pa": {"tx,drop,aborted", "tx,drop,pass", "tx,drop,redirect"},
	} {
		if diff := cmp.Diff(want, inList(xdp.VerdictNames(), typed)); diff != "" {
			t.Errorf("%q: %s", typed, diff)
		}
	}
}
