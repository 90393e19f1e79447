package drops

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Each stage is seen by the best of what kernel and driver have, or the check says why not.
func TestVisible(t *testing.T) {
	t.Parallel()
	yes := func(reason string) support.Check { return support.Check{Answer: support.Yes, Reason: reason} }
	able := support.Check{Answer: support.Yes}
	unable := support.Check{Answer: support.No, Reason: "no fexit", Remedy: "another kernel"}
	blind := support.Check{Answer: support.No, Reason: "failures only, since no program can be traced: no fexit", Remedy: "another kernel"}
	veth, nic := &support.Interface{Name: "eth0", Driver: "veth"}, &support.Interface{Name: "eth0", Driver: "ice"}
	generic := &support.Interface{Name: "eth0", Driver: "ice", Program: &support.AttachedProgram{Mode: "generic"}}
	for _, test := range []struct {
		name      string
		got, want support.Check
	}{
		{"card, no interface", visibleCard(nil, nil), support.Check{Reason: "depends on the interface and its driver"}},
		{"card, known driver", visibleCard(veth, nil), yes("by the interface's statistics and the driver's own")},
		{"card, queues", visibleCard(nic, map[uint32]lost.QueueDrops{0: {}}), yes("by the interface's statistics, and per queue by the card's")},
		{"card, other driver", visibleCard(nic, nil), yes("by the interface's statistics; ethtool -S eth0 may have more")},
		{"XDP, traced", visibleHook(nic, able), yes("at the program's exit")},
		{"XDP, generic", visibleHook(generic, unable), yes("by what the stack throws away after the program")},
		{"XDP, known driver", visibleHook(veth, unable), yes("by the driver's counters")},
		{"XDP, other driver", visibleHook(nic, unable), blind},
		{"XDP, no interface", visibleHook(nil, unable), blind},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	for _, test := range []struct {
		name          string
		names         lost.Reasons
		hidden        bool
		stack, egress string
	}{
		{"all", lost.Reasons{1: "NO_SOCKET", 2: "QDISC_DROP"}, false, "yes: by reason and function", "yes: by reason and function"},
		{"no symbols", lost.Reasons{1: "NO_SOCKET", 2: "QDISC_DROP"}, true, "yes: by reason; the kernel hides", "yes: by reason; the kernel hides"},
		{"no reason for queues", lost.Reasons{1: "NO_SOCKET"}, false, "yes: by reason and function", "no: counted with the stack's"},
		{"no reasons", nil, false, "yes: by function; the kernel gives", "no: counted with the stack's"},
	} {
		stack, egress := seenBy(test.names, test.hidden)
		for got, want := range map[support.Check]string{stack: test.stack, egress: test.egress} {
			if !strings.HasPrefix(got.Answer.String()+": "+got.Reason, want) {
				t.Errorf("%s: %+v, want %s", test.name, got, want)
			}
		}
	}
}

// On kernels that have all of it, each stage of a veth pair is seen.
func TestVisibleHere(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var r *support.Report
	err := pair.Rx.Do(func() (err error) {
		r, err = support.Probe(support.ProbeOptions{Interface: pair.RxName, Ring: 1 << 20, LeastRing: 1 << 17})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Visible(r) {
		if c.Answer != support.Yes || c.Reason == "" || c.Remedy != "" {
			t.Errorf("%s: %+v", c.Key, c)
		}
	}
	r.Features = support.Checks{{Key: support.FeatureMonitor, Answer: support.No, Reason: "no BTF"}}
	for _, c := range Visible(r) {
		if c.Answer != support.No || c.Reason != "no BTF" {
			t.Errorf("%s: without tracepoints, %+v", c.Key, c)
		}
	}
}
