package main_test

import (
	"github.com/xdpcap/xdpcap/internal/cli/bench"
	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/count"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/drops"
	"github.com/xdpcap/xdpcap/internal/cli/interfaces"
	"github.com/xdpcap/xdpcap/internal/cli/latency"
	"github.com/xdpcap/xdpcap/internal/cli/monitor"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	probecli "github.com/xdpcap/xdpcap/internal/cli/probe"
	readstats "github.com/xdpcap/xdpcap/internal/cli/read/statistics"
	"github.com/xdpcap/xdpcap/internal/cli/stats"
)

// What --json prints.
type (
	AccountKeys   = capture.AccountKeys
	CompanionKeys = capture.CompanionKeys
	VerdictRates  = stats.VerdictRates
	EventCase     = monitor.EventCase
	summary       = capture.Summary
	sourceSummary = capture.SourceSummary
	outputSummary = outputs.Summary
	statsReport   = stats.Report
	countReport   = count.Report
	flowOverflow  = counters.FlowOverflow
	monitorReport = monitor.Report
	recordLine    = monitor.RecordLine
	dropsReport   = drops.Report
	latencyReport = latency.Report
	runtimeReport = latency.RuntimeReport
	eventLine     = latency.EventLine
	programReport = bench.Report
	readReport    = readstats.Report
	interfaceKeys = interfaces.Keys
	probeReport   = probecli.Report
	intervalKeys  = counters.IntervalKeys
	rate          = counters.Rate
	flowRate      = count.FlowRate
	flowKeys      = readstats.FlowKeys
	estimateKeys  = readstats.EstimateKeys
	sflowSummary  = outputs.SFlowSummary
)

// Words and limits of the command line that tests name.
const (
	settingsFileVariable = "XDPCAP_CONFIG"
	strictCalls          = "XDPCAP_TEST_CALLS"
	onStderr             = "/dev/stderr"
	byTrace              = "fentry-fexit"
	byBuiltin            = "builtin"
	byKernel             = "kernel-stats"
	maxConnections       = 16  // that --listen serves at once
	waitingThreads       = 10  // that may wait in the kernel
	alikeNotices         = 10  // that are told in full
	maxColumns           = 100 // of a table
)
