package meter

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func newActionBench(t *testing.T, queues int, name string) (*Actions, *ebpf.Program) {
	t.Helper()
	testnet.RequireRoot(t)
	a, err := newActions(ActionsOptions{Queues: queues})
	must(t, err)
	t.Cleanup(func() { a.Close() })
	prog, err := a.load(name)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { prog.Close() })
	return a, prog
}

// Each program returns its verdict and changes exactly the counter of that verdict.
func TestActions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program string
		verdict xdp.Verdict
	}{
		{actionsProgXdpcapPass, xdp.Pass},
		{actionsProgXdpcapDrop, xdp.Drop},
		{actionsProgXdpcapAbort, xdp.Aborted},
	} {
		t.Run(test.program, func(t *testing.T) {
			a, prog := newActionBench(t, 0, test.program)
			var want VerdictTallies
			for _, size := range []int{60, 1514, 9014} { // the last in several buffers
				if verdict := runExactly(t, prog, testnet.UDPFrame(size, 0), 3); verdict != test.verdict {
					t.Fatal(verdict)
				}
				want[test.verdict].Add(Tally{3, 3 * uint64(size)})
				got, err := a.Read()
				must(t, err)
				if diff := cmp.Diff(want, got.Total()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A queue is counted separately, or together with others if it is not among the first ones.
func TestActionQueues(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{0, 1, 3} {
		a, prog := newActionBench(t, queues, actionsProgXdpcapPass)
		packet := testnet.UDPFrame(60, 0)
		ctx := make([]byte, 24) // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress
		binary.LittleEndian.PutUint32(ctx[4:], uint32(len(packet)))
		binary.LittleEndian.PutUint32(ctx[12:], 1) // lo has one queue, 0
		if _, err := prog.Run(&ebpf.RunOptions{Data: packet, Context: ctx, Repeat: 1}); err != nil {
			t.Fatal(err)
		}
		got, err := a.Read()
		must(t, err)
		if len(got.Queues) != queues+1 {
			t.Errorf("%d queues", len(got.Queues))
		}
		var want VerdictTallies
		want[xdp.Pass] = Tally{1, 60}
		if diff := cmp.Diff([]VerdictTallies{want, want}, []VerdictTallies{got.Queue(0), got.Total()}); diff != "" {
			t.Errorf("%d queues: queue 0, and in all: %s", queues, diff)
		}
	}
}
