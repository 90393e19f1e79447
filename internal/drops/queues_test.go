package drops

import (
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What a card lost is read by receive queue, and of the link's statistics only what is beyond it
// counts.
func TestQueues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		attrs []*nl.RtAttr
		queue uint32
		want  queueDrops
		ok    bool
	}{
		{"overruns", []*nl.RtAttr{
			nl.NewRtAttr(qstatsQueueID, nl.Uint32Attr(3)), nl.NewRtAttr(qstatsQueueType, nl.Uint32Attr(0)),
			nl.NewRtAttr(qstatsDrops, nl.Uint32Attr(9)), nl.NewRtAttr(qstatsOverruns, nl.Uint64Attr(1<<40)),
		}, 3, queueDrops{1 << 40, 1 << 40}, true},
		{"drops alone", []*nl.RtAttr{nl.NewRtAttr(qstatsDrops, nl.Uint64Attr(9))}, 0, queueDrops{9, 0}, true},
		{"a queue that sends", []*nl.RtAttr{nl.NewRtAttr(qstatsQueueType, nl.Uint32Attr(1)), nl.NewRtAttr(qstatsDrops, nl.Uint64Attr(9))},
			0, queueDrops{9, 0}, false},
		{"not told", []*nl.RtAttr{nl.NewRtAttr(qstatsQueueID, nl.Uint32Attr(3)), nl.NewRtAttr(8, nl.Uint64Attr(9))}, 3, queueDrops{}, false},
	} {
		var raw []byte
		for _, a := range test.attrs {
			raw = append(raw, a.Serialize()...)
		}
		attrs, err := nl.ParseRouteAttr(raw)
		if err != nil {
			t.Fatal(err)
		}
		if queue, got, ok := parseQueue(attrs); queue != test.queue || got != test.want || ok != test.ok {
			t.Errorf("%s: queue %d, %+v, %v", test.name, queue, got, ok)
		}
	}
	c := card{first: cardState{queues: map[uint32]queueDrops{0: {10, 10}}}}
	now := cardState{queues: map[uint32]queueDrops{0: {15, 13}, 1: {4, 4}}}
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

// The kernel answers for the queue of a card. virtio_net tells no losses where its device has no
// statistics, as qemu's has none.
func TestQueuesOfCard(t *testing.T) {
	pair := testnet.MustCards(t, testnet.PairOptions{})
	err := pair.Rx.Do(func() error {
		answers, err := support.AskNetdev(qstatsGet, unix.NLM_F_DUMP,
			nl.NewRtAttr(qstatsIfindex, nl.Uint32Attr(uint32(pair.RxIndex))), nl.NewRtAttr(qstatsScope, nl.Uint32Attr(1)))
		const packets = 8
		isPackets := func(a syscall.NetlinkRouteAttr) bool { return a.Attr.Type == packets }
		if len(answers) == 0 || !slices.ContainsFunc(answers[0], isPackets) {
			t.Errorf("answers: %v", answers)
		}
		if drops := readQueues(pair.RxIndex); len(drops) > 0 {
			t.Errorf("%v: now that drivers tell, compare it with the interface's statistics", drops)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
