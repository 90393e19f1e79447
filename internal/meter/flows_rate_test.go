package meter

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func flowBetween(class Class, from, to string) Flow {
	return Flow{Class: class, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
}

// oneBucket is a table of one CPU with one bucket.
func oneBucket(missed Tally, entries ...FlowEntry) [][]FlowBucket {
	return [][]FlowBucket{{{Entries: entries, Missed: missed}}}
}

func TestTopFlows(t *testing.T) {
	t.Parallel()
	entry := func(f Flow, packets, bytes uint64) FlowEntry {
		return FlowEntry{Flow: f, Verdict: NoVerdict, Counted: Tally{packets, bytes}}
	}
	var (
		idle     = flowBetween(IPv4(6), "192.0.2.1:0", "192.0.2.2:443")
		old      = flowBetween(IPv4(6), "192.0.2.1:1", "192.0.2.2:443")
		busy     = flowBetween(IPv4(6), "192.0.2.1:2", "192.0.2.2:443")
		returned = flowBetween(IPv4(6), "192.0.2.1:3", "192.0.2.2:443") // lost its entry and has it again
		moved    = flowBetween(IPv4(6), "192.0.2.1:6", "192.0.2.2:443") // has the entry of another one
		sameUDP  = flowBetween(IPv4(17), "192.0.2.1:4", "192.0.2.2:5")
		sameTCP  = flowBetween(IPv4(6), "192.0.2.1:4", "192.0.2.2:5")
		sameFrom = flowBetween(IPv4(6), "192.0.2.1:4", "192.0.2.2:6")
		sameTo   = flowBetween(IPv4(6), "192.0.2.1:5", "192.0.2.2:5")
	)
	again := entry(returned, 20, 2000)
	again.Error = Tally{10, 1900}
	i := Interval[ProtocolCounts]{Took: time.Second}
	i.Before.Flows = oneBucket(Tally{}, entry(idle, 1, 60), entry(old, 100, 90_000), entry(busy, 10, 1000), entry(returned, 10, 1900), entry(sameUDP, 1, 60))
	i.Now.Flows = oneBucket(Tally{10, 1900}, entry(idle, 1, 60), entry(old, 100, 90_000), entry(busy, 40, 4000), again, entry(moved, 10, 600),
		entry(sameTo, 1, 60), entry(sameFrom, 1, 60), entry(sameUDP, 1, 60), entry(sameTCP, 1, 60))
	order := []Flow{busy, returned, moved, sameTCP, sameUDP, sameFrom, sameTo, old, idle}
	for n := range len(order) + 2 {
		got := []Flow{}
		for _, f := range TopFlows(i, n) {
			got = append(got, f.Flow)
		}
		if diff := cmp.Diff(order[:min(n, len(order))], got, cmp.Comparer(func(a, b Flow) bool { return a == b })); diff != "" {
			t.Errorf("the first %d: %s", n, diff)
		}
	}
	rates := TopFlows(i, 3)
	for k, want := range []struct {
		Rate
		error Tally
	}{{Rate{40, 4000, 30, 24_000}, Tally{}}, {Rate{20, 2000, 20, 16_000}, Tally{10, 1900}}, {Rate{10, 600, 10, 4800}, Tally{}}} {
		if rates[k].Rate != want.Rate || rates[k].Error != want.error {
			t.Errorf("flow %d: %+v, want %+v", k, rates[k], want)
		}
	}
}

// The packets of a flow with one verdict are added up over the CPUs. If it has no entry on a CPU,
// its error includes what that CPU missed.
func TestTopFlowsOfCPUs(t *testing.T) {
	t.Parallel()
	f := flowBetween(IPv4(6), "192.0.2.1:1", "192.0.2.2:443")
	entry := func(v xdp.Verdict, counted, missed uint64) FlowEntry {
		return FlowEntry{f, v, Tally{counted, 100 * counted}, Tally{missed, 100 * missed}}
	}
	i := Interval[ProtocolCounts]{Took: time.Second}
	i.Now.Flows = [][]FlowBucket{
		{{}, {Entries: []FlowEntry{entry(xdp.Drop, 50, 2), entry(xdp.Pass, 7, 0)}, Missed: Tally{5, 500}}},
		{{}, {Entries: []FlowEntry{entry(xdp.Drop, 60, 3)}, Missed: Tally{10, 1000}}},
		{{}, {Missed: Tally{20, 2000}}},
	}
	got := TopFlows(i, 10)
	for k, want := range []struct {
		verdict        xdp.Verdict
		counted, error uint64
	}{{xdp.Drop, 110, 2 + 3 + 20}, {xdp.Pass, 7, 0 + 10 + 20}} {
		if len(got) != 2 || got[k].Verdict != want.verdict || got[k].Packets != want.counted || got[k].Bytes != 100*want.counted ||
			got[k].Error != (Tally{want.error, 100 * want.error}) {
			t.Errorf("%+v, want %+v in place %d", got, want, k)
		}
	}
}
