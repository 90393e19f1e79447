package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Classes are ordered by bytes, and those with equal bytes by number. Classes without packets are
// omitted.
func TestClassRates(t *testing.T) {
	t.Parallel()
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
	of := func(c Class, r Rate) ClassRate { return ClassRate{c.Family(), c.Protocol(), c.Number(), r} }
	for _, test := range []struct {
		name string
		got  []ClassRate
		want []ClassRate
	}{
		{"all CPUs", ClassRates(i), []ClassRate{
			of(IPv6(17), rate(30, 15)), of(IPv4(6), rate(10, 4)), of(IPv4(1), rate(5, 2.5)), of(IPv4(17), rate(5, 2.5)),
		}},
		{"CPU 0", CPUClassRates(i, 0), []ClassRate{of(IPv6(17), rate(30, 15)), of(IPv4(6), rate(6, 2))}},
		{"CPU 1", CPUClassRates(i, 1), []ClassRate{of(IPv4(1), rate(5, 2.5)), of(IPv4(17), rate(5, 2.5)), of(IPv4(6), rate(4, 2))}},
		{"a CPU that does not exist", CPUClassRates(i, 2), []ClassRate{}},
		{"nothing counted", ClassRates(Interval[ProtocolCounts]{Took: time.Second}), []ClassRate{}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
