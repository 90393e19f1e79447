package capture_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// At every hook and by every transport each packet is captured once, as it was there, and is in the
// account.
func TestEveryHook(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		traced  bool // there is a program, which passes every packet
		options capture.Options
		at      []string // by Hook.String, in the order of the sources
	}{
		{"native", false, capture.Options{Mode: capture.Native}, []string{"xdp"}},
		{"generic", false, capture.Options{Mode: capture.Generic}, []string{"xdp"}},
		{"sink", false, capture.Options{Sink: true}, []string{"xdp"}},
		{"sent", false, capture.Options{Direction: capture.Out}, []string{"egress"}},
		{"ingress", false, capture.Options{At: capture.AtIngress}, []string{"ingress"}},
		{"entry", true, capture.Options{Hooks: []capture.Hook{capture.Entry}}, []string{"entry"}},
		{"exit", true, capture.Options{Hooks: []capture.Hook{capture.Exit}}, []string{"exit"}},
		{"entry and exit", true, capture.Options{Hooks: []capture.Hook{capture.Entry, capture.Exit}}, []string{"entry", "exit"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.traced {
				testnet.RequireFentry(t)
			}
			eachTransport(t, func(t *testing.T, transport capture.Transport) {
				o := test.options
				o.Transport = transport
				testEveryHook(t, test.traced, o, test.at)
			})
		})
	}
}

func testEveryHook(t *testing.T, traced bool, o capture.Options, at []string) {
	pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	if traced {
		target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
	}
	ns := pair.Rx
	o.Interfaces = []string{pair.RxName}
	if o.Direction == capture.Out {
		ns, o.Interfaces = pair.Tx, []string{pair.TxName}
	}
	var s *capture.Session
	if err := ns.Do(func() (err error) { s, err = capture.Open(o); return err }); err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	const n = 50
	want := make(map[string]int) // sources by frame
	var size uint64
	for i := range n {
		frame := testnet.UDPFrame(60+i*i*3, uint64(i))
		testnet.Send(t, pair, frame)
		want[string(frame)] = len(at)
		size += uint64(len(frame))
	}
	// Without a native program, frames have arrived before the kernel has handled them.
	testnet.WaitFor(t, "the programs to see the frames", func() bool {
		accounts, err := s.Accounts()
		return err != nil || accounts.Total().Seen >= uint64(n*len(at))
	})
	s.Stop()
	for p, err := range s.Packets(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if int(p.WireLen) != len(p.Data) {
			t.Errorf("%d bytes of %d", len(p.Data), p.WireLen)
		}
		if frame := string(bytes.Clone(p.Data)); want[frame] == 1 {
			delete(want, frame)
		} else {
			want[frame]--
		}
	}
	if len(want) > 0 {
		t.Errorf("%d frames were not captured as often as they came to a hook", len(want))
	}
	accounts, err := s.Accounts()
	if err != nil {
		t.Fatal(err)
	}
	var all capture.Accounts
	var hooks []string
	for _, source := range s.Sources() {
		hooks = append(hooks, source.Hook.String())
		all = append(all, capture.Account{Seen: n, Captured: n, Bytes: size})
	}
	if diff := cmp.Diff(all, accounts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(at, hooks); diff != "" {
		t.Errorf("hooks: %s", diff)
	}
}
