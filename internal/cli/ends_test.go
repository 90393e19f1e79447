package cli

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

// A terminal gets a live count. TestClosingLines checks that without a terminal stderr gets nothing
// but the documented lines.
func TestLiveLine(t *testing.T) {
	if got := liveLine(capture.Account{Seen: 1500, Captured: 1500}, 1500, 3<<20); got != "xdpcap: 1500 seen, 1500 captured, 0 lost, 1.5 kpkt/s, 3 MiB written" {
		t.Error(got)
	}
	if n := len(liveLine(longestAccount(), 1e8, 1<<62)); n > 100 {
		t.Errorf("the live line is %d columns wide", n)
	}
}
