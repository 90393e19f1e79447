package meter

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Classes are in the order of their bytes, and of their numbers where these are equal. Those
// without a packet are left out.
func TestClassRates(t *testing.T) {
	tally := func(n uint64) Tally { return Tally{Packets: n, Bytes: 100 * n} }
	i := Interval[ProtocolCounts]{Took: 2 * time.Second}
	i.Before.Classes = map[Class][]Tally{IPv4(6): {tally(2), tally(0)}}
	i.Now.Classes = map[Class][]Tally{
		IPv4(6):  {tally(6), tally(4)},
		IPv4(17): {tally(0), tally(5)},
		IPv4(1):  {tally(0), tally(5)},
		IPv6(17): {tally(30), tally(0)},
		IPv6(58): {tally(0), tally(0)},
	}
	rate := func(n uint64, pps float64) Rate { return Rate{n, 100 * n, pps, 800 * pps} }
	for _, test := range []struct {
		name string
		got  []ClassRate
		want []ClassRate
	}{
		{"all CPUs", ClassRates(i), []ClassRate{
			{IPv6(17), rate(30, 15)}, {IPv4(6), rate(10, 4)}, {IPv4(1), rate(5, 2.5)}, {IPv4(17), rate(5, 2.5)},
		}},
		{"CPU 0", CPUClassRates(i, 0), []ClassRate{{IPv6(17), rate(30, 15)}, {IPv4(6), rate(6, 2)}}},
		{"CPU 1", CPUClassRates(i, 1), []ClassRate{{IPv4(1), rate(5, 2.5)}, {IPv4(17), rate(5, 2.5)}, {IPv4(6), rate(4, 2)}}},
		{"a CPU that does not exist", CPUClassRates(i, 2), nil},
		{"nothing counted", ClassRates(Interval[ProtocolCounts]{Took: time.Second}), nil},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestTopFlows(t *testing.T) {
	flow := func(class Class, from, to string) Flow {
		return Flow{Class: class, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
	}
	var (
		idle     = flow(IPv4(6), "192.0.2.1:0", "192.0.2.2:443")
		old      = flow(IPv4(6), "192.0.2.1:1", "192.0.2.2:443")
		busy     = flow(IPv4(6), "192.0.2.1:2", "192.0.2.2:443")
		returned = flow(IPv4(6), "192.0.2.1:3", "192.0.2.2:443") // counted from zero again
		smaller  = flow(IPv4(6), "192.0.2.1:6", "192.0.2.2:443") // likewise, with more and smaller packets
		sameUDP  = flow(IPv4(17), "192.0.2.1:4", "192.0.2.2:5")
		sameTCP  = flow(IPv4(6), "192.0.2.1:4", "192.0.2.2:5")
		sameFrom = flow(IPv4(6), "192.0.2.1:4", "192.0.2.2:6")
		sameTo   = flow(IPv4(6), "192.0.2.1:5", "192.0.2.2:5")
	)
	i := Interval[ProtocolCounts]{Took: time.Second}
	i.Before.Flows = map[Flow]Tally{idle: {1, 60}, old: {100, 90_000}, busy: {10, 1000}, returned: {100, 50_000}, smaller: {1, 1500}}
	i.Now.Flows = map[Flow]Tally{
		idle: {1, 60}, old: {100, 90_000}, busy: {20, 3000}, returned: {2, 1200}, smaller: {10, 600},
		sameTo: {1, 60}, sameFrom: {1, 60}, sameUDP: {1, 60}, sameTCP: {1, 60},
	}
	order := []Flow{busy, returned, smaller, sameTCP, sameUDP, sameFrom, sameTo, old, idle}
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
	for k, want := range []Rate{{20, 3000, 10, 16_000}, {2, 1200, 2, 9600}, {10, 600, 10, 4800}} {
		if diff := cmp.Diff(want, rates[k].Rate); diff != "" {
			t.Errorf("flow %d: %s", k, diff)
		}
	}
}
