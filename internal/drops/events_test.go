package drops

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// addUp reads such causes and events of all interfaces together.
func addUp(causes map[Cause]Tally, events meter.EventCounts) *reading {
	m := &Meter{sockets: openSockets(nil)}
	r := &reading{Counts: Counts{Losses: make(map[Loss]Tally)}}
	r.addStack(m, stackCounts{Causes: causes})
	r.addEvents(m, events)
	addTo(r.Losses, Loss{Stage: XDP, Reason: "drop"}, m.dropped(r))
	return r
}

// What events that made room have lost stays among the losses, and those without losses are none.
func TestFormerEvents(t *testing.T) {
	t.Parallel()
	kthread := meter.Case{Event: meter.CPUMapKthread}
	got := addUp(nil, meter.EventCounts{
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
		{Stage: XDP, Reason: "devmap: no error told", Where: "to eth1", Device: "eth0"}:     {Packets: 2},
		{Stage: XDP, Reason: "devmap: no error told", Where: "to gone", Device: meter.Gone}: {Packets: 7},
		{Stage: XDP, Reason: "redirect: network is down", Device: meter.Gone}:               {Packets: 8},
		{Stage: XDP, Reason: "cpumap: dropped on the other CPU"}:                            {Packets: 10},
	}}
	if diff := cmp.Diff(want.Losses, got.Losses); diff != "" || got.Missed != want.Missed || got.failures.redirects != 8 {
		t.Errorf("%d missed, %d redirects failed, losses: %s", got.Missed, got.failures.redirects, diff)
	}
}

// A packet for another CPU whose queue is full is counted once, though in generic mode the kernel
// tells of it twice.
func TestFullCPUMap(t *testing.T) {
	t.Parallel()
	for _, generic := range []bool{false, true} {
		events := meter.EventCounts{Cases: map[meter.Case][]meter.EventCount{
			{Event: meter.CPUMapEnqueue, MapID: 7, ToCPU: 3}: {{Events: 9, Packets: 4, Drops: 5}},
		}}
		if generic {
			events.Cases[meter.Case{Event: meter.RedirectErr, From: "eth0", MapID: 7, MapType: ebpf.CPUMap, Errno: unix.ENOSPC}] =
				[]meter.EventCount{{Events: 5, Drops: 5}}
		}
		want := map[Loss]Tally{{Stage: XDP, Reason: "cpumap: queue of CPU 3 is full", Where: "map 7"}: {Packets: 5}}
		if generic { // the map of another program, such as one behind a dispatcher
			events.Cases[meter.Case{Event: meter.RedirectErr, From: "eth0", MapID: 8, MapType: ebpf.CPUMap, Errno: unix.ENOSPC}] =
				[]meter.EventCount{{Events: 2, Drops: 2}}
			want[Loss{Stage: XDP, Reason: "redirect: no space left on device", Where: "map 8", Device: "eth0"}] = Tally{Packets: 2}
		}
		if diff := cmp.Diff(want, addUp(nil, events).Losses); diff != "" {
			t.Errorf("in generic mode: %v: %s", generic, diff)
		}
	}
}

// A packet that cannot be sent in generic mode is counted once, wherever the kernel says that it
// throws it away. What a driver could not send is another one.
func TestGenericTx(t *testing.T) {
	t.Parallel()
	exception := func(v xdp.Verdict) meter.Case {
		return meter.Case{Event: meter.Exception, From: "eth0", Verdict: v}
	}
	events := meter.EventCounts{Cases: map[meter.Case][]meter.EventCount{
		exception(xdp.Tx):      {{Events: 12, Drops: 12, Generic: 5, Foreign: 4}, {Events: 1, Drops: 1, Generic: 1}},
		exception(xdp.Aborted): {{Events: 9, Drops: 9, Generic: 2}},
	}}
	hook := Cause{Reason: "NOT_SPECIFIED", Location: "do_xdp_generic", Device: "eth0"}
	apart := Cause{Reason: "NOT_SPECIFIED", Location: "generic_xdp_tx", Device: "eth0"}
	redirect := Cause{Reason: "NOT_SPECIFIED", Location: "xdp_do_generic_redirect", Device: "eth0"}
	at := func(c Cause) Loss { return Loss{Stage: Stack, Reason: c.Reason, Where: c.Location, Device: "eth0"} }
	xdpLoss := func(reason string) Loss { return Loss{Stage: XDP, Reason: reason, Device: "eth0"} }
	drop := Loss{Stage: XDP, Reason: "drop"}
	tally := func(n uint64) Tally { return Tally{Packets: n} }
	for _, test := range []struct {
		name   string
		causes map[Cause]Tally
		want   map[Loss]Tally
	}{
		{"named", map[Cause]Tally{apart: tally(10), hook: tally(2 + 8)},
			map[Loss]Tally{at(apart): tally(10), xdpLoss("tx"): tally(3), xdpLoss("aborted"): tally(9), drop: tally(8)}},
		{"by its caller", map[Cause]Tally{redirect: tally(4), hook: tally(6 + 2 + 8)},
			map[Loss]Tally{at(redirect): tally(4), xdpLoss("tx"): tally(9), xdpLoss("aborted"): tally(9), drop: tally(8)}},
	} {
		r := addUp(test.causes, events)
		if diff := cmp.Diff(test.want, r.Losses); diff != "" || r.failures.tx != 3 || r.failures.aborted != 7 {
			t.Errorf("%s: %+v in native mode, losses: %s", test.name, r.failures, diff)
		}
	}
}
