package commandline_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What a shell shows of flags and commands has no marks of the help in it.
func TestCompletionDescriptions(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	for _, args := range [][]string{{"__complete", "--"}, {"__complete", "count", "--"}, {"__complete", "read", "--"}, {"__complete", ""}} {
		out, err := systest.Command(args...).Output()
		if err != nil || bytes.Contains(out, []byte("`")) || bytes.Count(out, []byte("\t")) < 5 {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}

// An interface whose name a shell would take for a command is not offered: a container chooses the
// names of its interfaces.
func TestCompletionIsTypable(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "`id`a"})
	out := systest.RunInside(t, pair.Rx, systest.Command("__complete", "probe", "-i", ""))
	if strings.Contains(out, "`") || !strings.HasPrefix(out, "lo\n") {
		t.Errorf("%q", out)
	}
}
