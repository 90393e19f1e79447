package lost

import (
	"slices"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What a card lost is read by receive queue.
func TestQueues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		attrs []*nl.RtAttr
		queue uint32
		want  QueueDrops
		ok    bool
	}{
		{"overruns", []*nl.RtAttr{
			nl.NewRtAttr(qstatsQueueID, nl.Uint32Attr(3)), nl.NewRtAttr(qstatsQueueType, nl.Uint32Attr(0)),
			nl.NewRtAttr(qstatsDrops, nl.Uint32Attr(9)), nl.NewRtAttr(qstatsOverruns, nl.Uint64Attr(1<<40)),
		}, 3, QueueDrops{1 << 40, 1 << 40}, true},
		{"drops alone", []*nl.RtAttr{nl.NewRtAttr(qstatsDrops, nl.Uint64Attr(9))}, 0, QueueDrops{9, 0}, true},
		{"a queue that sends", []*nl.RtAttr{nl.NewRtAttr(qstatsQueueType, nl.Uint32Attr(1)), nl.NewRtAttr(qstatsDrops, nl.Uint64Attr(9))},
			0, QueueDrops{9, 0}, false},
		{"not told", []*nl.RtAttr{nl.NewRtAttr(qstatsQueueID, nl.Uint32Attr(3)), nl.NewRtAttr(8, nl.Uint64Attr(9))}, 3, QueueDrops{}, false},
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
		if drops := ReadQueues(pair.RxIndex); len(drops) > 0 {
			t.Errorf("%v: now that drivers tell, compare it with the interface's statistics", drops)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
