package streams_test

import (
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// What --json prints.
type (
	sflowSummary = outputs.SFlowSummary
)
