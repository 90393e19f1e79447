package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testdoc"
)

var metricNames = regexp.MustCompile(`xdpcap_[a-z0-9_]+`)

// The dashboard has a panel for every exported metric, and none for anything else.
func TestDashboard(t *testing.T) {
	t.Parallel()
	dashboard := testdoc.ReadDashboard(t)
	exported := allMetrics(t)
	used := make(map[string]bool)
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			names := metricNames.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %s: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				metric := metricOf(name, exported)
				if metric == "" {
					t.Errorf("panel %s asks for %s, which nothing exports", p.Title, name)
				}
				used[metric] = true
			}
		}
	}
	for name := range exported {
		if !used[name] {
			t.Errorf("no panel asks for %s", name)
		}
	}
}

// docs/metrics.md has every metric that is exported, and no other.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	documented := make(map[string]bool)
	exported := allMetrics(t)
	for _, name := range metricNames.FindAllString(testdoc.Read(t, "docs/metrics.md"), -1) {
		documented[name] = true
		if exported[name] == "" {
			t.Errorf("docs/metrics.md has %s, which nothing exports", name)
		}
	}
	for name := range exported {
		if !documented[name] {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
}

// metricOf is the metric to which a series belongs, or "". The series of a histogram have its name
// and a suffix.
func metricOf(series string, exported map[string]string) string {
	if kind := exported[series]; kind == "COUNTER" || kind == "GAUGE" {
		return series
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && exported[name] == "HISTOGRAM" {
			return name
		}
	}
	return ""
}
