package capture_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// At every hook and by every transport each packet is captured once, as it was there, and is in the
// account; and a filter finds what packets carry.
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
			t.Run("inner", func(t *testing.T) {
				t.Parallel()
				testInner(t, test.traced, test.options, len(test.at))
			})
		})
	}
}

// atHook opens a session at a hook of a new pair.
func atHook(t *testing.T, traced bool, o capture.Options) (*testnet.Pair, *capture.Session) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	if traced {
		target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { target.Close() })
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
	t.Cleanup(func() { s.Close() })
	return pair, s
}

func testEveryHook(t *testing.T, traced bool, o capture.Options, at []string) {
	pair, s := atHook(t, traced, o)
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

// testInner sends packets inside others, in each kind of tunnel, and some that a filter must not
// find.
func testInner(t *testing.T, traced bool, o capture.Options, hooks int) {
	o.Filter, o.VXLANPort = "inner tcp port 443", 5000
	pair, s := atHook(t, traced, o)
	path := testnet.TxToRx()
	wanted := tunnels(path, path.TCP(testnet.Segment{SrcPort: 40000, DstPort: 443, Payload: []byte("wanted")}))
	others := tunnels(path, path.TCP(testnet.Segment{SrcPort: 40000, DstPort: 80, Payload: []byte("unwanted")}))
	others["plain"] = path.TCP(testnet.Segment{SrcPort: 40000, DstPort: 443})
	later := bytes.Clone(wanted["IP in IP"])
	later[14+7] = 5
	others["later fragment"] = later
	names := make(map[string]string)
	for _, frames := range []map[string][]byte{others, wanted} {
		for name, frame := range frames {
			names[string(frame)] = name
			testnet.Send(t, pair, frame)
		}
	}
	n := uint64(hooks * (len(wanted) + len(others)))
	testnet.WaitFor(t, "the programs to see the frames", func() bool {
		accounts, err := s.Accounts()
		return err != nil || accounts.Total().Seen >= n
	})
	s.Stop()
	want, got := make(map[string]int), make(map[string]int)
	for name := range wanted {
		want[name] = hooks
	}
	for p, err := range s.Packets(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[names[string(p.Data)]]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("captured: %s", diff)
	}
}

// tunnels are frames that carry a frame of IPv4, by the kind of tunnel.
func tunnels(p testnet.Path, inner []byte) map[string][]byte {
	around := func(b []byte, header ...byte) []byte { return append(header, b...) }
	packet := inner[14:]
	addresses, size := inner[:12:12], byte(len(packet))
	v4 := func(protocol byte, payload []byte) []byte {
		b := bytes.Clone(inner[:34])
		b[17], b[23] = byte(20+len(payload)), protocol
		return append(b, payload...)
	}
	segments := p.UDPv6(1, 2, nil)[:54:54]
	segments[19], segments[20] = byte(24+len(inner)), 43
	routed := append(around(make([]byte, 16), 143, 2, 4, 0, 0, 0, 0, 0), inner...)
	return map[string][]byte{
		"VLAN":        testnet.VLAN(inner, 5),
		"QinQ":        testnet.QinQ(inner, 5, 6),
		"MPLS":        append(addresses, around(packet, 0x88, 0x47, 0, 1, 0x10, 64, 0, 1, 0x21, 64)...),
		"PPPoE":       append(addresses, around(packet, 0x88, 0x64, 0x11, 0, 0, 1, 0, size+2, 0, 0x21)...),
		"IP in IP":    v4(4, packet),
		"GRE":         v4(47, around(packet, 0x20, 0, 8, 0, 0, 0, 0, 5)),
		"GRE, frame":  v4(47, around(inner, 0x10, 0, 0x65, 0x58, 0, 0, 0, 1)),
		"SRv6":        append(segments, routed...),
		"VXLAN":       p.UDP(50000, 4789, around(inner, 8, 0, 0, 0, 0, 0, 5, 0)),
		"VXLAN, VLAN": p.UDPv6(50000, 8472, around(testnet.VLAN(inner, 5), 8, 0, 0, 0, 0, 0, 5, 0)),
		"VXLAN, port": p.UDP(50000, 5000, around(inner, 8, 0, 0, 0, 0, 0, 5, 0)),
		"VXLAN-GPE":   p.UDP(50000, 4790, around(packet, 0x0c, 0, 0, 1, 0, 0, 5, 0)),
		"Geneve":      p.UDPv6(50000, 6081, around(inner, 1, 0, 0x65, 0x58, 0, 0, 5, 0, 0, 1, 2, 0)),
		"GTP-U":       p.UDP(50000, 2152, around(packet, 0x34, 255, 0, size+8, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 0, 9, 0)),
		"two":         p.UDP(50000, 4789, around(v4(4, packet), 8, 0, 0, 0, 0, 0, 5, 0)),
	}
}
