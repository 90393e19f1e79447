package documents_test

import (
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	probecli "github.com/xdpcap/xdpcap/internal/cli/probe"
)

// What --json prints.
type (
	probeReport  = probecli.Report
	intervalKeys = counters.IntervalKeys
)
