package cli

import (
	"github.com/xdpcap/xdpcap/internal/cli/counters"
)

// The objects that --json prints, for packages that decode them.
type (
	Summary       = summary
	SourceSummary = sourceSummary
	OutputSummary = outputSummary
	IntervalKeys  = counters.IntervalKeys
	Rate          = counters.Rate
	SFlowSummary  = sflowSummary
)
