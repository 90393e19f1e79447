package counters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestEventRates(t *testing.T) {
	t.Parallel()
	exception := meter.Case{Event: meter.Exception, From: "eth0", Verdict: xdp.Aborted}
	bulk := meter.Case{Event: meter.DevmapXmit, From: "eth0", To: "eth1"}
	idle := meter.Case{Event: meter.MemConnect, From: "eth0"}
	i := monitorInterval{Took: 2 * time.Second}
	i.Before.Cases = map[meter.Case][]meter.EventCount{
		exception: {{Events: 2, Drops: 1}, {}},
		idle:      {{Events: 1}, {}},
	}
	i.Now.Cases = map[meter.Case][]meter.EventCount{
		exception: {{Events: 6, Drops: 6}, {}},
		bulk:      {{Events: 2, Packets: 30, Drops: 2}, {Events: 2, Packets: 8, Sched: 2, Passed: 4, Dropped: 6, Redirected: 8}},
		idle:      {{Events: 1}, {}},
	}
	of := func(c meter.Case, r eventRates) eventRates {
		r.EventCase, r.event = newEventCase(c), c.Event
		return r
	}
	onCPU := func(cpu int, r eventRates) eventRates { r.CPU = &cpu; return r }
	sums := []eventRates{
		of(exception, eventRates{EventCount: meter.EventCount{Events: 6, Drops: 6}, EventsPerSecond: 2, LostPerSecond: 2.5, PacketsPerEvent: 1.25}),
		of(bulk, eventRates{EventCount: meter.EventCount{Events: 4, Packets: 38, Drops: 2, Sched: 2, Passed: 4, Dropped: 6, Redirected: 8},
			EventsPerSecond: 2, PacketsPerSecond: 19, LostPerSecond: 1,
			SchedPerSecond: 1, PassedPerSecond: 2, DroppedPerSecond: 3, RedirectedPerSecond: 4, PacketsPerEvent: 10}),
		of(idle, eventRates{EventCount: meter.EventCount{Events: 1}}),
	}
	perCPU := []eventRates{
		onCPU(0, sums[0]), sums[0],
		onCPU(0, of(bulk, eventRates{EventCount: i.Now.Cases[bulk][0], EventsPerSecond: 1, PacketsPerSecond: 15, LostPerSecond: 1, PacketsPerEvent: 16})),
		onCPU(1, of(bulk, eventRates{EventCount: i.Now.Cases[bulk][1], EventsPerSecond: 1, PacketsPerSecond: 4,
			SchedPerSecond: 1, PassedPerSecond: 2, DroppedPerSecond: 3, RedirectedPerSecond: 4, PacketsPerEvent: 4})),
		sums[1],
		onCPU(0, sums[2]), sums[2],
	}
	for _, test := range []struct {
		name string
		got  []eventRates
		want []eventRates
	}{
		{"sums", allRates(i, false), sums},
		{"per CPU", allRates(i, true), perCPU},
		{"nothing counted", allRates(monitorInterval{}, true), []eventRates{}},
	} {
		if diff := cmp.Diff(test.want, test.got, cmp.AllowUnexported(eventRates{})); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// Cases are ordered by each field where all fields before it are equal.
func TestCompareCases(t *testing.T) {
	t.Parallel()
	sorted := []meter.Case{
		{Event: meter.Redirect, From: "eth9"},
		{Event: meter.Exception},
		{Event: meter.Exception, Message: "m"},
		{Event: meter.Exception, Memory: 1},
		{Event: meter.Exception, Verdict: 1},
		{Event: meter.Exception, Errno: unix.ENOENT},
		{Event: meter.Exception, To: "a"},
		{Event: meter.Exception, From: "a"},
		{Event: meter.Exception, ToCPU: 1},
		{Event: meter.Exception, MapID: 1},
		{Event: meter.DevmapXmit},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := compareCases(a, b); got != want {
				t.Errorf("%+v to %+v: %d, want %d", a, b, got, want)
			}
		}
	}
}
