package countertest

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/metrics"
)

// CheckMetrics checks that a snapshot in which every metric has a value exports all of them, and
// that the linter passes them.
func CheckMetrics[S any](t *testing.T, snapshot S, m metrics.Set[S]) {
	t.Helper()
	families, err := Linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(m.All) {
		t.Errorf("%d families of %d metrics", len(families), len(m.All))
	}
}
