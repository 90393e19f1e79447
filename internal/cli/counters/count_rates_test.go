package counters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// Classes are ordered by bytes, and those with equal bytes by number. Classes without packets are
// omitted.
func TestClassRates(t *testing.T) {
	t.Parallel()
	tally := func(n uint64) meter.Tally { return meter.Tally{Packets: n, Bytes: 100 * n} }
	i := countInterval{Took: 2 * time.Second}
	i.Before.Classes = map[meter.Class][]meter.Tally{meter.IPv4(6): {tally(2), tally(0)}}
	i.Now.Classes = map[meter.Class][]meter.Tally{
		meter.IPv4(6):  {tally(6), tally(4)},
		meter.IPv4(17): {tally(0), tally(5)},
		meter.IPv4(1):  {tally(0), tally(5)},
		meter.IPv6(17): {tally(30), tally(0)},
		meter.IPv6(58): {tally(0), tally(0)},
	}
	rate := func(n uint64, pps float64) meter.Rate {
		return meter.Rate{Packets: n, Bytes: 100 * n, PacketsPerSecond: pps, BitsPerSecond: 800 * pps}
	}
	of := func(c meter.Class, r meter.Rate) ClassRate { return ClassRate{c.Family(), c.Protocol(), c.Number(), r} }
	for _, test := range []struct {
		name string
		got  []ClassRate
		want []ClassRate
	}{
		{"all CPUs", classRates(i, meter.ProtocolCounts.Class), []ClassRate{
			of(meter.IPv6(17), rate(30, 15)), of(meter.IPv4(6), rate(10, 4)), of(meter.IPv4(1), rate(5, 2.5)), of(meter.IPv4(17), rate(5, 2.5)),
		}},
		{"CPU 0", cpuClassRates(i, 0), []ClassRate{of(meter.IPv6(17), rate(30, 15)), of(meter.IPv4(6), rate(6, 2))}},
		{"CPU 1", cpuClassRates(i, 1), []ClassRate{of(meter.IPv4(1), rate(5, 2.5)), of(meter.IPv4(17), rate(5, 2.5)), of(meter.IPv4(6), rate(4, 2))}},
		{"a CPU that does not exist", cpuClassRates(i, 2), []ClassRate{}},
		{"nothing counted", classRates(countInterval{Took: time.Second}, meter.ProtocolCounts.Class), []ClassRate{}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
