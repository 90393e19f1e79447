package cli

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/testdoc"
)

// Every metric that an alert asks for is exported.
func TestAlertMetrics(t *testing.T) {
	t.Parallel()
	text := testdoc.Read(t, "contrib/prometheus-xdpcap.rules.yml")
	exported := allMetrics(t)
	for _, name := range metricNames.FindAllString(text, -1) {
		if metricOf(name, exported) == "" {
			t.Errorf("an alert asks for %s, which nothing exports", name)
		}
	}
}
