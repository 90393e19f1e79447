package systest

import (
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/inspect"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/cli/read"
)

// The output of --json.
type (
	AccountKeys   = capture.AccountKeys
	Summary       = capture.Summary
	SourceSummary = capture.SourceSummary
	OutputSummary = outputs.Summary
	StatsReport   = counters.StatsReport
	CountReport   = counters.CountReport
	MonitorReport = counters.MonitorReport
	RecordLine    = counters.RecordLine
	DropsReport   = counters.DropsReport
	LatencyReport = counters.LatencyReport
	RuntimeReport = counters.RuntimeReport
	ProgramReport = read.MeasuredReport
	ReplayReport  = read.ReplayReport
	ReadReport    = read.Report
	InterfaceKeys = inspect.InterfaceKeys
	FlowKeys      = read.FlowKeys
)

// Messages and limits of the command line that tests name.
const (
	SettingsFileVariable = "XDPCAP_CONFIG"
	StrictCalls          = "XDPCAP_TEST_CALLS"
	ByTrace              = "fentry-fexit"
)
