package systest

import (
	"github.com/xdpcap/xdpcap/internal/cli/bench"
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/count"
	"github.com/xdpcap/xdpcap/internal/cli/drops"
	"github.com/xdpcap/xdpcap/internal/cli/interfaces"
	"github.com/xdpcap/xdpcap/internal/cli/latency"
	"github.com/xdpcap/xdpcap/internal/cli/monitor"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	readstats "github.com/xdpcap/xdpcap/internal/cli/read/statistics"
	"github.com/xdpcap/xdpcap/internal/cli/stats"
)

// The output of --json.
type (
	AccountKeys   = capture.AccountKeys
	Summary       = capture.Summary
	SourceSummary = capture.SourceSummary
	OutputSummary = outputs.Summary
	StatsReport   = stats.Report
	CountReport   = count.Report
	MonitorReport = monitor.Report
	RecordLine    = monitor.RecordLine
	DropsReport   = drops.Report
	LatencyReport = latency.Report
	RuntimeReport = latency.RuntimeReport
	ProgramReport = bench.Report
	ReadReport    = readstats.Report
	InterfaceKeys = interfaces.Keys
	FlowKeys      = readstats.FlowKeys
)

// Messages and limits of the command line that tests name.
const (
	SettingsFileVariable = "XDPCAP_CONFIG"
	StrictCalls          = "XDPCAP_TEST_CALLS"
	ByTrace              = "fentry-fexit"
)
