package countertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/metrics"
)

// CheckMetrics checks the names, types and texts of what is exported of a snapshot, in which every
// metric has a value.
func CheckMetrics[S any](t *testing.T, snapshot S, m metrics.Set[S]) {
	t.Helper()
	families, err := Linted(t, snapshot, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(m.All) {
		t.Errorf("%d families of %d metrics", len(families), len(m.All))
	}
	suffixes := map[string][]string{"COUNTER": {"_total"}, "HISTOGRAM": {"_seconds"}, "GAUGE": {"_seconds", "_bytes", "_clients", "_info"}}
	for _, f := range families {
		ends := func(suffix string) bool { return strings.HasSuffix(f.GetName(), suffix) }
		if !slices.ContainsFunc(suffixes[f.GetType().String()], ends) || !strings.HasPrefix(f.GetName(), "xdpcap_") || f.GetHelp() == "" {
			t.Errorf("%v", f)
		}
	}
}
