package capture

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// A terminal gets a live count. TestClosingLines checks that without a terminal stderr gets nothing
// but the documented lines.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	if got := liveLine(capture.Account{Seen: 1500, Captured: 1500}, 1500, 3<<20); got != "xdpcap: 1500 seen, 1500 captured, 0 lost, 1.5 kpkt/s, 3 MiB written" {
		t.Error(got)
	}
	if n := len(liveLine(longestAccount(), 1e8, 1<<62)); n > 100 {
		t.Errorf("the live line is %d columns wide", n)
	}
}

// One packet is "1 packet", as in tcpdump, and a message names an interface without a driver by its
// name alone.
func TestCountsOfOne(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeCounts(&out, capture.Account{Seen: 1, Captured: 1})
	want := "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n" +
		"xdpcap: 1 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 1 captured\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	writeCounts(&out, capture.Account{Seen: 3, Captured: 1, Unexplained: 2})
	if want := " + 1 captured + 2 unexplained\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q does not end in %q", out.String(), want)
	}
	for _, test := range []struct{ driver, want string }{{"", "lo"}, {"veth", "driver veth of lo"}} {
		if got := driverOf(capture.Source{Name: "lo", Driver: test.driver}); got != test.want {
			t.Errorf("%q: %s", test.driver, got)
		}
	}
}

func longestAccount() capture.Account {
	return capture.Account{Seen: 999_999_999_999, Captured: 999_999_999_999, Lost: 999_999}
}
