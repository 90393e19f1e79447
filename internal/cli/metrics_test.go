package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	library "github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// typesOf notes the names and types of metrics, which have a help text and a suffix of their type.
func typesOf[S any](t *testing.T, m metrics.Set[S], types map[string]string) {
	t.Helper()
	suffixes := map[string][]string{
		"counter": {"_total"}, "histogram": {"_seconds"}, "gauge": {"_seconds", "_bytes", "_clients", "_info"},
	}
	for _, one := range m.All {
		kind := "counter"
		if one.Times != nil {
			kind = "histogram"
		} else if one.Gauge {
			kind = "gauge"
		}
		types[one.Name] = kind
		ends := func(suffix string) bool { return strings.HasSuffix(one.Name, suffix) }
		if !slices.ContainsFunc(suffixes[kind], ends) || one.Help == "" {
			t.Errorf("%s is a %s: %s", one.Name, kind, one.Help)
		}
	}
}

// allMetrics are the names and types of the metrics of all commands.
func allMetrics(t *testing.T) map[string]string {
	t.Helper()
	types := make(map[string]string)
	typesOf(t, new(counters.StatsOptions).Counter(nil, "rx0").Metrics, types)
	typesOf(t, (&counters.CountOptions{Sizes: true, Flows: 5}).Counter(nil, library.In, "rx0").Metrics, types)
	typesOf(t, new(counters.MonitorOptions).Metrics(""), types)
	typesOf(t, new(counters.DropsOptions).Counter(nil, "rx0").Metrics, types)
	typesOf(t, new(counters.LatencyOptions).Counter(nil, nil, "rx0").Metrics, types)
	typesOf(t, counters.RuntimeMetrics("rx0"), types)
	typesOf(t, capture.Metrics(library.TransportRing, time.Now()), types)
	return types
}

// seriesOf are the series of a metric, by the suffixes of their names.
func seriesOf(kind string) []string {
	if kind == "histogram" {
		return []string{"_bucket", "_sum", "_count"}
	}
	return []string{""}
}

// The documentation and the dashboard have every exported metric, and neither these nor the alerts
// have one that nothing exports.
func TestMetrics(t *testing.T) {
	t.Parallel()
	documented, queried := make(map[string]string), make(map[string]string)
	for name, kind := range allMetrics(t) {
		documented[name] = name
		for _, suffix := range seriesOf(kind) {
			queried[name+suffix] = name
		}
	}
	names := regexp.MustCompile(`xdpcap_[a-z0-9_]+`)
	var panels strings.Builder
	titles := make(map[string]bool)
	for _, p := range testfile.ReadDashboard(t).Panels {
		if titles[p.Title] {
			t.Errorf("two panels are called %q", p.Title)
		}
		titles[p.Title] = true
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			panels.WriteString(target.Expr + "\n")
			if !names.MatchString(target.Expr) {
				t.Errorf("panel %s: %s", p.Title, target.Expr)
			}
		}
	}
	for _, test := range []struct {
		where, text string
		known       map[string]string // the metric by the name that may stand there
		all         bool
	}{
		{"docs/metrics.md", testfile.Read(t, "docs/metrics.md"), documented, true},
		{"the dashboard", panels.String(), queried, true},
		{"an alert", testfile.Read(t, "contrib/prometheus-xdpcap.rules.yml"), queried, false},
	} {
		found := make(map[string]bool)
		for _, name := range names.FindAllString(test.text, -1) {
			if found[test.known[name]] = true; test.known[name] == "" {
				t.Errorf("%s has %s, which nothing exports", test.where, name)
			}
		}
		for name := range documented {
			if test.all && !found[name] {
				t.Errorf("%s does not have %s", test.where, name)
			}
		}
	}
}
