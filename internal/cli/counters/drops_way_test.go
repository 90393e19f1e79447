package counters

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/drops"
)

// The picture has the packets per second that come to each stage, and what that lost, with the
// reason of most. It fits into a terminal of 80 columns, and says what is not counted.
func TestWay(t *testing.T) {
	t.Parallel()
	tally := func(packets uint64) *drops.Tally { return &drops.Tally{Packets: packets, Bytes: 100 * packets} }
	lost := func(reasons ...string) map[drops.Loss]drops.Tally {
		losses := make(map[drops.Loss]drops.Tally)
		for i, reason := range reasons {
			losses[drops.Loss{Stage: drops.Stack, Reason: reason}] = *tally(uint64(40 - i))
		}
		return losses
	}
	for _, test := range []struct {
		name  string
		stops []drops.Stop
		want  string
	}{
		{"stack", []drops.Stop{
			{Stage: drops.Card, Losses: lost()},
			{Stage: drops.XDP, Came: tally(40), Losses: lost(), Elsewhere: tally(0)},
			{Stage: drops.Stack, Came: tally(40), Losses: lost("NETFILTER_DROP"), Elsewhere: tally(0)},
			{Stage: drops.Socket, Came: tally(0), Losses: lost()},
		}, `
card -- 40/s --> XDP -- 40/s --> stack -- 0/s --> socket
0 lost           0 lost          40/s lost        0 lost
                                 NETFILTER_DROP

`},
		{"widest", []drops.Stop{
			{Stage: drops.Card},
			{Stage: drops.XDP, Came: tally(123_456), Losses: lost("drop"), Elsewhere: tally(7)},
			{Stage: drops.Stack, Came: tally(123_456), Losses: lost("TCP_OFO_QUEUE_PRUNE", "NO_SOCKET"), Elsewhere: tally(12_345)},
			{Stage: drops.Socket, Losses: lost("SOCKET_RCVBUFF")},
		}, `
card -- 123.5k/s --> XDP -- 123.5k/s --> stack -- ? --------> socket
? lost               40/s lost           79/s lost            40/s lost
                     drop                TCP_OFO_QUEUE_PRUNE  SOCKET_RCVBUFF
                     7/s forwarded       12.3k/s forwarded
                     or elsewhere        or elsewhere

what comes to sockets is not counted: why
`},
		{"shortened", []drops.Stop{
			{Stage: drops.Card, Losses: lost("a_card_has_the_longest_names")},
			{Stage: drops.Stack, Came: tally(40), Losses: lost("SKB_SEGMENTATION_FAILED"), Elsewhere: tally(0)},
			{Stage: drops.Socket, Came: tally(0), Losses: lost()},
		}, `
card -- 40/s ------> stack -- 0/s ------> socket
40/s lost            40/s lost            0 lost
a_card_has_the_lon…  SKB_SEGMENTATION_F…

`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			way := &drops.Way{Stops: test.stops}
			if strings.Contains(test.want, "why") {
				way.Notes = []string{"what comes to sockets is not counted: " + errors.New("why").Error()}
			}
			var b strings.Builder
			newWay(dropsInterval{Now: drops.Counts{Way: way}, Took: time.Second, Elapsed: time.Second}).write(&b)
			if diff := cmp.Diff(test.want, "\n"+b.String()); diff != "" {
				t.Error(diff)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(line) - 1; n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}
