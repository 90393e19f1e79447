package cli

import (
	"github.com/xdpcap/xdpcap/internal/cli/counters"
)

// The objects that --json prints, by which others decode them.
type (
	Summary       = summary
	SourceSummary = sourceSummary
	OutputSummary = outputSummary
	ReadReport    = readReport
	IntervalKeys  = counters.IntervalKeys
	Rate          = counters.Rate
	FlowKeys      = flowKeys
	EstimateKeys  = estimateKeys
	SFlowSummary  = sflowSummary
)
