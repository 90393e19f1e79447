package read_test

import (
	readstats "github.com/xdpcap/xdpcap/internal/cli/read/statistics"
)

// What --json prints.
type (
	estimateKeys = readstats.EstimateKeys
)

// Words and limits of the command line that tests name.
const (
	maxColumns = 100 // of a table
)
