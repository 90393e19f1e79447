package counters_test

import (
	"github.com/xdpcap/xdpcap/internal/cli/count"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/monitor"
)

// What --json prints.
type (
	EventCase    = monitor.EventCase
	flowOverflow = counters.FlowOverflow
	rate         = counters.Rate
	flowRate     = count.FlowRate
)

// Words and limits of the command line that tests name.
const (
	byBuiltin      = "builtin"
	byKernel       = "kernel-stats"
	maxConnections = 16 // that --listen serves at once
)
