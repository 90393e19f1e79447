package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	library "github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/count"
	"github.com/xdpcap/xdpcap/internal/cli/drops"
	"github.com/xdpcap/xdpcap/internal/cli/latency"
	"github.com/xdpcap/xdpcap/internal/cli/monitor"
	"github.com/xdpcap/xdpcap/internal/cli/stats"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// typesOf notes the names and types of metrics.
func typesOf[S any](m metrics.Set[S], types map[string]string) {
	for _, one := range m.All {
		switch {
		case one.Times != nil:
			types[one.Name] = "HISTOGRAM"
		case one.Gauge:
			types[one.Name] = "GAUGE"
		default:
			types[one.Name] = "COUNTER"
		}
	}
}

// allMetrics are the names and types of the metrics of all commands.
func allMetrics(t *testing.T) map[string]string {
	t.Helper()
	types := make(map[string]string)
	typesOf(new(stats.Options).Counters(nil, "rx0").Metrics, types)
	typesOf((&count.Options{Sizes: true, Flows: 5}).Counters(nil, library.In, "rx0").Metrics, types)
	typesOf(new(monitor.Options).Metrics(nil), types)
	typesOf(new(drops.Options).Counters(nil, "rx0").Metrics, types)
	typesOf(latency.Traced(nil, "rx0").Metrics, types)
	typesOf(latency.RuntimeMetrics("rx0"), types)
	typesOf(capture.Metrics(library.TransportRing, time.Now()), types)
	return types
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const counter, histogram, gauge = "COUNTER", "HISTOGRAM", "GAUGE"
	want := map[string]string{
		"xdpcap_capture_info":                     gauge,
		"xdpcap_capture_start_time_seconds":       gauge,
		"xdpcap_captured_bytes_total":             counter,
		"xdpcap_captured_packets_total":           counter,
		"xdpcap_clients_lost_packets_total":       counter,
		"xdpcap_clients_refused_total":            counter,
		"xdpcap_clients_total":                    counter,
		"xdpcap_connected_clients":                gauge,
		"xdpcap_filtered_out_packets_total":       counter,
		"xdpcap_flow_evicted_bytes_total":         counter,
		"xdpcap_flow_evictions_total":             counter,
		"xdpcap_drops_missed_total":               counter,
		"xdpcap_drops_packets_total":              counter,
		"xdpcap_flow_missed_bytes":                gauge,
		"xdpcap_invalid_packets_total":            counter,
		"xdpcap_latency_lost_total":               counter,
		"xdpcap_latency_seconds":                  histogram,
		"xdpcap_lost_packets_total":               counter,
		"xdpcap_not_recorded_packets_total":       counter,
		"xdpcap_not_sampled_packets_total":        counter,
		"xdpcap_not_taken_packets_total":          counter,
		"xdpcap_output_captured_bytes_total":      counter,
		"xdpcap_output_captured_packets_total":    counter,
		"xdpcap_output_file_bytes":                gauge,
		"xdpcap_output_not_taken_packets_total":   counter,
		"xdpcap_program_run_seconds_total":        counter,
		"xdpcap_program_runs_total":               counter,
		"xdpcap_protocol_bytes_total":             counter,
		"xdpcap_protocol_packets_total":           counter,
		"xdpcap_reason_packets_total":             counter,
		"xdpcap_seen_packets_total":               counter,
		"xdpcap_size_bytes_total":                 counter,
		"xdpcap_size_packets_total":               counter,
		"xdpcap_tracepoint_cpumap_sched_total":    counter,
		"xdpcap_tracepoint_cpumap_verdicts_total": counter,
		"xdpcap_tracepoint_drops_total":           counter,
		"xdpcap_tracepoint_events_total":          counter,
		"xdpcap_tracepoint_missed_total":          counter,
		"xdpcap_tracepoint_packets_total":         counter,
		"xdpcap_verdict_bytes_total":              counter,
		"xdpcap_verdict_packets_total":            counter,
	}
	if diff := cmp.Diff(want, allMetrics(t)); diff != "" {
		t.Error(diff)
	}
}
