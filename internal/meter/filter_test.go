package meter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// filters read headers, the packet's length, and nothing at all.
var filters = []string{"tcp port 443", "vlan and udp or arp", "greater 100", "less 0", "ip6"}

func mustCompile(t *testing.T, text string) []bpf.RawInstruction {
	t.Helper()
	program, err := filter.CompileRaw(text, filter.Options{})
	must(t, err)
	return program
}

// Only the packets that the filter takes are counted, by class, size and flow, received or sent.
func TestProtocolsFilter(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		for _, text := range filters {
			program := mustCompile(t, text)
			b := newCountBench(t, ProtocolsOptions{Sent: sent, Sizes: true, Flows: true, Filter: program, flowBuckets: 256})
			classes, flows := make(map[string]Tally), make(map[Flow]Tally)
			for _, test := range protocolTable {
				if sent && !isRunnable(test.packet) {
					continue
				}
				b.run(test.packet, 3)
				if filter.Run(program, test.packet, uint32(len(test.packet))) == 0 {
					continue
				}
				tally := Tally{3, 3 * uint64(len(test.packet))}
				addTo(classes, test.class.String(), tally)
				if test.flow != nil {
					addTo(flows, *test.flow, tally)
				}
			}
			got := b.counts()
			if diff := cmp.Diff(classes, byClass(got)); diff != "" {
				t.Errorf("%s, sent: %v: %s", text, sent, diff)
			}
			if diff := cmp.Diff(flows, exactFlows(t, got, NoVerdict), equalAddrs); diff != "" {
				t.Errorf("%s, sent: %v: flows: %s", text, sent, diff)
			}
			var sizes Tally
			for _, s := range got.Sizes {
				sizes.Add(s)
			}
			if sizes != got.Total() {
				t.Errorf("%s, sent: %v: %v by size, %v in all", text, sent, sizes, got.Total())
			}
		}
	}
}

// The same of a program that is traced, at its entry and, with flows, at its exit.
func TestProtocolsTraceFilter(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	testnet.RequireLiveFrames(t)
	for i, text := range filters {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(text, func(t *testing.T) {
			program := mustCompile(t, text)
			pair := testnet.MustPair(t, testnet.PairOptions{})
			testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
			var entry, exit *Protocols
			inNamespace(t, pair.Rx, func() (err error) {
				o := ProtocolsOptions{Interface: pair.RxName, Filter: program}
				if entry, err = OpenProtocols(o); err != nil {
					return err
				}
				o.Flows, o.Sizes = true, true
				exit, err = OpenProtocols(o)
				return err
			})
			defer entry.Close()
			defer exit.Close()
			classes, flows := make(map[string]Tally), make(map[Flow]Tally)
			for _, test := range protocolTable {
				if len(test.packet) > 1500+18 {
					continue // longer than the pair's MTU allows
				}
				_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: test.packet, Raw: true, Count: 20})
				if filter.Run(program, test.packet, uint32(len(test.packet))) == 0 {
					continue
				}
				tally := Tally{delivered, delivered * uint64(len(test.packet))}
				addTo(classes, test.class.String(), tally)
				if test.flow != nil {
					addTo(flows, *test.flow, tally)
				}
			}
			if diff := cmp.Diff(classes, byClass(read(t, pair, entry.Read))); diff != "" {
				t.Error("at the entry:", diff)
			}
			got := read(t, pair, exit.Read)
			if diff := cmp.Diff(classes, byClass(got)); diff != "" {
				t.Error("at the exit:", diff)
			}
			if diff := cmp.Diff(flows, exactFlows(t, got, xdp.Drop), equalAddrs); diff != "" {
				t.Error("flows:", diff)
			}
		})
	}
}
