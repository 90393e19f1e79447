package cli

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A terminal gets a live count. TestClosingLines checks that without a terminal stderr gets nothing
// but the documented lines.
func TestLiveLine(t *testing.T) {
	for _, test := range []struct {
		size int64
		want string
	}{
		{999, "999 B"}, {1000, "1.0 kB"}, {1_234_567, "1.2 MB"}, {98_765_432_100, "98.8 GB"}, {5e15, "5000.0 TB"},
	} {
		if got := frame.Scaled(float64(test.size)) + "B"; got != test.want {
			t.Errorf("%d bytes are shown as %q, want %q", test.size, got, test.want)
		}
	}
	if n := len(liveLine(longestAccount(), 1e8, 1<<62)); n > 100 {
		t.Errorf("the live line is %d columns wide", n)
	}
}
