package drops

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// What a driver lost for no cause that it tells stays in its row when redirects fail later,
// whichever queue they were of.
func TestDriverLosses(t *testing.T) {
	t.Parallel()
	for _, failed := range []uint64{0, 3, 40} {
		r := &reading{Counts: Counts{Losses: make(map[Loss]Tally)}}
		r.failures.redirects = failed
		r.card = cardReading{lost: 5 + failed}
		r.addCard(driverKinds["veth"])
		if got := r.Losses[Loss{Stage: Card, Reason: "driver"}].Packets; got != 5 || len(r.Losses) != 1 {
			t.Errorf("after %d failed redirects: %v", failed, r.Losses)
		}
	}
}

// Counters of receive queues are found by both names that drivers give them.
func TestCounterOfQueue(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"rx_queue_3_drops": "drops", "rx12_xdp_drops": "xdp_drops", "rx_queue_0_xdp_tx_errors": "xdp_tx_errors",
		"tx_queue_0_drops": "", "rx_drops": "", "rx_queue_": "", "peer_ifindex": "",
	} {
		if got, ok := counterOfQueue(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// Of a link's statistics only what is beyond the losses of its receive queues counts.
func TestCardQueues(t *testing.T) {
	t.Parallel()
	c := card{first: cardState{queues: map[uint32]lost.QueueDrops{0: {All: 10, Overruns: 10}}}}
	now := cardState{queues: map[uint32]lost.QueueDrops{0: {All: 15, Overruns: 13}, 1: {All: 4, Overruns: 4}}}
	now.link.RxMissedErrors = 20
	r := reading{Counts: Counts{Losses: make(map[Loss]Tally)}, card: c.since(now)}
	r.addCard(driverKind{})
	got := make(map[Loss]uint64)
	for l, tally := range r.Losses {
		got[l] = tally.Packets
	}
	want := map[Loss]uint64{
		{Stage: Card, Reason: "rx_missed", Where: "queue 0"}: 3, {Stage: Card, Reason: "rx_hw_drops", Where: "queue 0"}: 2,
		{Stage: Card, Reason: "rx_missed", Where: "queue 1"}: 4, {Stage: Card, Reason: "rx_missed"}: 11,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
