package statistics

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/file"
)

// The account of a file is an equation if the file has all numbers. Otherwise it is a list of the
// known numbers, without the unknown ones.
func TestFileAccount(t *testing.T) {
	t.Parallel()
	n := func(n uint64) *uint64 { return &n }
	for want, said := range map[string]file.InterfaceStatistics{
		"9 seen = 2 filtered out + 3 not sampled + 1 lost + 3 captured": {Seen: n(9), Matched: n(7), Lost: n(1), Dropped: n(1), Captured: n(3)},
		"42 seen, 3 lost":         {Seen: n(42), Lost: n(3)},
		"42 seen, 2 filtered out": {Seen: n(42), Matched: n(40)},
		"":                        {Matched: n(5)},
	} {
		if got := newFileAccount([]file.InterfaceStatistics{said}).String(); got != want {
			t.Errorf("%+v: %q, want %q", said, got, want)
		}
	}
}
