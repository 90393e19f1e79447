package capture

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Packets that interrupt each other on a CPU, as on a real-time kernel, are all in the account, and
// their records are whole.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	packet := packetOf(200, 1)
	for i, transport := range []Transport{TransportPerf, TransportRing} {
		for j, test := range []struct {
			name    string
			options Options
		}{
			{"every packet", Options{}},
			{"filter, flows", Options{Filter: "udp or not udp", SampleFlows: 1, First: 1 << 40, Sample: 2}},
		} {
			if !testnet.Shared(i + j) { // real-time kernels, where packets interrupt each other, run all
				continue
			}
			t.Run(transport.String()+", "+test.name, func(t *testing.T) {
				o := test.options
				o.Transport, o.Buffer = transport, 16<<20
				p := newProgramTest(t, o)
				runs, err := testnet.RunInterrupted(2000, func() error {
					_, err := p.program(0).Run(&ebpf.RunOptions{Data: packet})
					return err
				})
				must(t, err)
				a := p.accounts()[0]
				if a.Seen != runs || a.FilteredOut+a.NotSampled+a.Lost+a.Sent != runs {
					t.Errorf("of %d packets the account has %+v", runs, a)
				}
				samples, _ := p.samples()
				ids := make(map[uint64]bool)
				for _, s := range samples {
					ids[s.ID] = true
				}
				if uint64(len(samples)) != a.Sent || len(ids) != len(samples) {
					t.Errorf("%d records with %d ids, of %d that were sent", len(samples), len(ids), a.Sent)
				}
				if a.Lost > 0 && a.Sent < 50_000 {
					t.Errorf("%d were lost, although there was room", a.Lost)
				}
			})
		}
	}
}
