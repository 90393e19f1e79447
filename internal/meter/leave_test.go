package meter

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A watchedLink calls a function after it has been closed.
type watchedLink struct {
	link.Link
	closed func()
}

func (l watchedLink) Close() error {
	defer l.closed()
	return l.Link.Close()
}

// The tracers of a program are detached one after the other. Between, a packet that was inside
// leaves and another one goes through. The kernel omits the exit of the first, so neither is
// counted; above all, the second is not counted with the note of the first.
func TestTracersLeave(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	protocols := ProtocolsOptions{Variant: Ultra, Flows: true}
	for _, test := range []struct {
		name    string
		tracers func(*testing.T) (of tracers, counted func() (uint64, error))
	}{
		{"count", func(t *testing.T) (tracers, func() (uint64, error)) {
			spec, err := protocolsSpec(protocols)
			must(t, err)
			p := newProtocols(protocols, spec)
			t.Cleanup(func() { p.protocolMaps.close() })
			of := tracers{spec: spec, names: protocols.tracers(), load: func(name string) (*ebpf.Program, error) { return p.load(spec, name) }}
			return of, func() (uint64, error) {
				c, err := p.Read()
				return c.Total().Packets, err
			}
		}},
		{"latency", func(t *testing.T) (tracers, func() (uint64, error)) {
			spec, err := loadLatency()
			must(t, err)
			l := &Latency{}
			t.Cleanup(func() { l.Close() })
			maps, err := l.probeMaps(spec)
			must(t, err)
			of := tracers{spec: spec, names: probeNames, load: func(name string) (*ebpf.Program, error) { return loadProgram(spec, name, maps) }}
			return of, func() (uint64, error) {
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
			counts, err := of.attach(traced, xdp.Interface{Index: loopback})
			must(t, err)
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
			counts[0].link = watchedLink{counts[0].link, func() {
				if err := target.OpenGate(); err != nil {
					t.Error(err)
				}
				if err := <-first; err != nil {
					t.Error(err)
				}
				if err := run(); err != nil {
					t.Error(err)
				}
			}}
			if err := closeAll(counts); err != nil {
				t.Error(err)
			}
			if n, err := counted(); n != 0 || err != nil {
				t.Errorf("%d packets are counted, %v", n, err)
			}
		})
	}
}
