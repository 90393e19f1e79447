package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestEventRates(t *testing.T) {
	t.Parallel()
	exception := Case{Event: Exception, From: "eth0", Verdict: xdp.Aborted}
	bulk := Case{Event: DevmapXmit, From: "eth0", To: "eth1"}
	idle := Case{Event: MemConnect, From: "eth0"}
	i := Interval[EventCounts]{Took: 2 * time.Second}
	i.Before.Cases = map[Case][]EventCount{
		exception: {{Events: 2, Drops: 1}, {}},
		idle:      {{Events: 1}, {}},
	}
	i.Now.Cases = map[Case][]EventCount{
		exception: {{Events: 6, Drops: 6}, {}},
		bulk:      {{Events: 2, Packets: 30, Drops: 2}, {Events: 2, Packets: 8, Sched: 2, Passed: 4, Dropped: 6, Redirected: 8}},
		idle:      {{Events: 1}, {}},
	}
	sums := []EventRate{
		{Case: exception, CPU: AllCPUs, EventCount: EventCount{Events: 6, Drops: 6}, EventsPerSecond: 2, DropsPerSecond: 2.5, PacketsPerEvent: 1.25},
		{Case: bulk, CPU: AllCPUs, EventCount: EventCount{4, 38, 2, 0, 0, 2, 4, 6, 8}, EventsPerSecond: 2, PacketsPerSecond: 19, DropsPerSecond: 1,
			SchedPerSecond: 1, PassedPerSecond: 2, DroppedPerSecond: 3, RedirectedPerSecond: 4, PacketsPerEvent: 10},
		{Case: idle, CPU: AllCPUs, EventCount: EventCount{Events: 1}},
	}
	onCPU := func(r EventRate, cpu int) EventRate { r.CPU = cpu; return r }
	perCPU := []EventRate{
		onCPU(sums[0], 0), sums[0],
		{Case: bulk, CPU: 0, EventCount: i.Now.Cases[bulk][0], EventsPerSecond: 1, PacketsPerSecond: 15, DropsPerSecond: 1, PacketsPerEvent: 16},
		{Case: bulk, CPU: 1, EventCount: i.Now.Cases[bulk][1], EventsPerSecond: 1, PacketsPerSecond: 4, SchedPerSecond: 1, PassedPerSecond: 2, DroppedPerSecond: 3, RedirectedPerSecond: 4, PacketsPerEvent: 4},
		sums[1],
		onCPU(sums[2], 0), sums[2],
	}
	for _, test := range []struct {
		name string
		got  []EventRate
		want []EventRate
	}{
		{"sums", EventRates(i, false), sums},
		{"per CPU", EventRates(i, true), perCPU},
		{"nothing counted", EventRates(Interval[EventCounts]{}, true), nil},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// Cases are ordered by each field where all fields before it are equal.
func TestCompareCases(t *testing.T) {
	t.Parallel()
	sorted := []Case{
		{Event: Redirect, From: "eth9"},
		{Event: Exception},
		{Event: Exception, Message: "m"},
		{Event: Exception, Memory: 1},
		{Event: Exception, Verdict: 1},
		{Event: Exception, Errno: unix.ENOENT},
		{Event: Exception, To: "a"},
		{Event: Exception, From: "a"},
		{Event: Exception, ToCPU: 1},
		{Event: Exception, MapID: 1},
		{Event: DevmapXmit},
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
