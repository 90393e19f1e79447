package meter

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The tracers of a program are detached one after the other. Between, a packet that was inside
// leaves and another one goes through. The kernel omits the exit of the first, so neither is
// counted; above all, the second is not counted with the note of the first.
func TestTracersLeave(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	protocols := ProtocolsOptions{Variant: Ultra, Flows: true}
	for _, test := range []struct {
		name    string
		tracers func(*testing.T) (of *counter, counted func() (uint64, error))
	}{
		{"count", func(t *testing.T) (*counter, func() (uint64, error)) {
			p, err := newProtocols(protocols)
			must(t, err)
			t.Cleanup(func() { p.Close() })
			return &p.counter, func() (uint64, error) {
				c, err := p.Read()
				return c.Total().Packets, err
			}
		}},
		{"latency", func(t *testing.T) (*counter, func() (uint64, error)) {
			l, err := newLatency()
			must(t, err)
			t.Cleanup(func() { l.Close() })
			return &l.counter, func() (uint64, error) {
				c, err := l.Read()
				total := c.Total()
				return total.Count, err
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target, err := testnet.NewTarget(testnet.Waiting)
			must(t, err)
			defer target.Close()
			traced, err := xdp.Identify(target.Program())
			must(t, err)
			of, counted := test.tracers(t)
			const loopback = 1 // BPF_PROG_RUN makes packets that came in on this interface
			var attached []*attach.Attachment
			for _, name := range slices.Clone(of.tracers) {
				of.tracers = []string{name}
				a, err := of.attachTracers(traced, xdp.Interface{Index: loopback})
				must(t, err)
				attached = append(attached, a)
			}
			run := func() error {
				return machine.Quiet(1, func() error {
					_, err := target.Program().Run(&ebpf.RunOptions{Data: testnet.UDPFrame(100, 0), Repeat: 1})
					return err
				})
			}
			first := make(chan error, 1)
			go func() { first <- run() }()
			testnet.WaitFor(t, "the packet to be inside", func() bool {
				inside, err := target.HasPacket()
				return inside || err != nil
			})
			must(t, attached[0].Close())
			if err := target.OpenGate(); err != nil {
				t.Error(err)
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
			if err := run(); err != nil {
				t.Error(err)
			}
			must(t, attached[1].Close())
			if n, err := counted(); n != 0 || err != nil {
				t.Errorf("%d packets are counted, %v", n, err)
			}
		})
	}
}
