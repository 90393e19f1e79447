package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The two directions of a conversation are one, wherever they were counted: the one with more bytes
// since the beginning is named, and the bytes in the interval decide about the order.
func TestTopConversations(t *testing.T) {
	t.Parallel()
	var (
		request = flowBetween(IPv4(6), "192.0.2.1:40000", "192.0.2.2:443")
		answer  = flowBetween(IPv4(6), "192.0.2.2:443", "192.0.2.1:40000")
		other   = flowBetween(IPv4(17), "192.0.2.2:443", "192.0.2.1:40000")
		oneWay  = flowBetween(IPv6(58), "[2001:db8::1]:0", "[2001:db8::2]:0")
		itself  = flowBetween(IPv4(17), "127.0.0.1:7", "127.0.0.1:7")
	)
	entry := func(f Flow, v xdp.Verdict, packets, bytes uint64) FlowEntry {
		return FlowEntry{Flow: f, Verdict: v, Counted: Tally{packets, bytes}, Error: Tally{1, 10}}
	}
	interval := func(before, now []FlowEntry) (i Interval[ProtocolCounts]) {
		i.Took = time.Second
		i.Before.Flows, i.Now.Flows = oneBucket(Tally{1, 10}, before...), oneBucket(Tally{1, 10}, now...)
		return i
	}
	received := interval([]FlowEntry{entry(request, xdp.Pass, 5, 500), entry(oneWay, xdp.Pass, 9, 9000), entry(request, xdp.Drop, 1, 60), entry(other, xdp.Pass, 3, 90)},
		[]FlowEntry{entry(request, xdp.Pass, 10, 1000), entry(oneWay, xdp.Pass, 9, 9000), entry(request, xdp.Drop, 2, 120), entry(other, xdp.Pass, 4, 120), entry(itself, xdp.Pass, 1, 20)})
	sent := interval(nil, []FlowEntry{entry(answer, NoVerdict, 20, 20_000)})
	rate := func(packets, bytes, lately, bits uint64) Rate {
		return Rate{packets, bytes, float64(lately), float64(bits)}
	}
	for _, test := range []struct {
		name      string
		intervals []Interval[ProtocolCounts]
		want      []Conversation
	}{
		{"both", []Interval[ProtocolCounts]{received, sent}, []Conversation{
			{FlowRate{answer, xdp.Pass, rate(30, 21_000, 25, 164_000), Tally{2, 20}, 20_500}, rate(20, 20_000, 20, 160_000), rate(10, 1000, 5, 4000)},
			{FlowRate{request, xdp.Drop, rate(2, 120, 1, 480), Tally{1, 10}, 60}, rate(2, 120, 1, 480), Rate{}},
			{FlowRate{other, xdp.Pass, rate(4, 120, 1, 240), Tally{1, 10}, 30}, rate(4, 120, 1, 240), Rate{}},
			{FlowRate{itself, xdp.Pass, rate(1, 20, 1, 160), Tally{1, 10}, 20}, rate(1, 20, 1, 160), Rate{}},
			{FlowRate{oneWay, xdp.Pass, rate(9, 9000, 0, 0), Tally{1, 10}, 0}, rate(9, 9000, 0, 0), Rate{}},
		}},
		{"sent", []Interval[ProtocolCounts]{sent}, []Conversation{
			{FlowRate{answer, NoVerdict, rate(20, 20_000, 20, 160_000), Tally{1, 10}, 20_000}, rate(20, 20_000, 20, 160_000), Rate{}},
		}},
	} {
		for n := range len(test.want) + 2 {
			got := TopConversations(n, test.intervals...)
			if diff := cmp.Diff(test.want[:min(n, len(test.want))], got, equalAddrs, cmp.AllowUnexported(FlowRate{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, the first %d: %s", test.name, n, diff)
			}
		}
	}
}
