package meter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// filters read headers, the packet's length, and nothing at all.
var filters = []string{"tcp port 443", "vlan and udp or arp", "greater 100", "less 0", "ip6"}

func mustCompile(t *testing.T, text string) *filter.Program {
	t.Helper()
	program, err := filter.Compile(text, filter.Options{})
	must(t, err)
	return program
}

func addTo[K comparable](m map[K]Tally, key K, t Tally) {
	t.Add(m[key])
	m[key] = t
}

// A truth is what a meter must count.
type truth struct {
	filter  *filter.Program
	classes map[string]Tally
	flows   map[Flow]Tally
	sizes   [protocolsLimitSIZES]Tally
}

func newTruth(filter *filter.Program) *truth {
	return &truth{filter: filter, classes: make(map[string]Tally), flows: make(map[Flow]Tally)}
}

// add adds packets that the meter has seen, unless the filter does not take them.
func (w *truth) add(p protocolPacket, packets uint64) {
	if w.filter != nil && w.filter.Run(p.packet, uint32(len(p.packet))) == 0 {
		return
	}
	tally := Tally{packets, packets * uint64(len(p.packet))}
	addTo(w.classes, p.class.String(), tally)
	w.sizes[p.size].Add(tally)
	if p.flow != nil {
		addTo(w.flows, *p.flow, tally)
	}
}

func (w *truth) checkClasses(t *testing.T, what string, got ProtocolCounts) {
	t.Helper()
	if diff := cmp.Diff(w.classes, byClass(got)); diff != "" {
		t.Fatalf("%s: classes: %s", what, diff)
	}
}

func (w *truth) checkFlows(t *testing.T, what string, got ProtocolCounts, verdict xdp.Verdict) {
	t.Helper()
	if diff := cmp.Diff(w.flows, exactFlows(t, got, verdict), equalAddrs); diff != "" {
		t.Fatalf("%s: flows: %s", what, diff)
	}
}

func (w *truth) checkSizes(t *testing.T, what string, got ProtocolCounts) {
	t.Helper()
	if diff := cmp.Diff(w.sizes, got.Sizes); diff != "" {
		t.Fatalf("%s: sizes: %s", what, diff)
	}
}
