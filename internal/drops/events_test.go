package drops

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// addUp returns what is lost in such events, of all interfaces together.
func addUp(t *testing.T, events meter.EventCounts) (Counts, failures) {
	t.Helper()
	m := &Meter{sockets: openSockets(nil)}
	c := Counts{Losses: make(map[Loss]Tally)}
	return c, c.addEvents(m, events)
}

// What events that made room have lost stays among the losses, and those without losses are none.
func TestFormerEvents(t *testing.T) {
	kthread := meter.Case{Event: meter.CPUMapKthread}
	got, failed := addUp(t, meter.EventCounts{
		Missed: 3,
		Cases: map[meter.Case][]meter.EventCount{
			{Event: meter.DevmapXmit, From: "eth0", To: "eth1"}: {{Events: 9, Packets: 9}, {Events: 1, Drops: 2}},
			kthread: {{Events: 1, Drops: 4}},
		},
		Former: map[meter.Case]meter.EventCount{
			{Event: meter.DevmapXmit, From: meter.Gone, To: meter.Gone}:                    {Events: 5000, Packets: 5000, Drops: 7},
			{Event: meter.BulkTx, From: meter.Gone}:                                        {Events: 5000, Packets: 5000},
			{Event: meter.RedirectErr, From: meter.Gone, Errno: unix.ENETDOWN, MapType: 0}: {Events: 8, Drops: 8},
			kthread: {Events: 1, Drops: 6},
		},
	})
	want := Counts{Missed: 3, Losses: map[Loss]Tally{
		{Stage: XDP, Reason: "devmap: no error told", Where: "to eth1", Device: "eth0"}:     {2, 2, 0},
		{Stage: XDP, Reason: "devmap: no error told", Where: "to gone", Device: meter.Gone}: {7, 7, 0},
		{Stage: XDP, Reason: "redirect: network is down", Device: meter.Gone}:               {8, 8, 0},
		{Stage: XDP, Reason: "cpumap: dropped on the other CPU"}:                            {10, 10, 0},
	}}
	if diff := cmp.Diff(want.Losses, got.Losses); diff != "" || got.Missed != want.Missed || failed.redirects != 8 {
		t.Errorf("%d missed, %d redirects failed, losses: %s", got.Missed, failed.redirects, diff)
	}
}
