package capture_test

import (
	"github.com/xdpcap/xdpcap/internal/cli/capture"
)

// What --json prints.
type (
	CompanionKeys = capture.CompanionKeys
)
