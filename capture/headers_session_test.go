package capture_test

import (
	"bytes"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// At every hook, packets are cut Payload bytes after their headers, also a large one whose headers
// are not in one piece where it is sent.
func TestHeadersOnly(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name    string
		traced  bool
		options capture.Options
	}{
		{"native", false, capture.Options{Mode: capture.Native, HeadersOnly: true}},
		{"generic", false, capture.Options{Mode: capture.Generic, HeadersOnly: true, Payload: 50}},
		{"ingress", false, capture.Options{At: capture.AtIngress, HeadersOnly: true}},
		{"sent", false, capture.Options{Direction: capture.Out, HeadersOnly: true}},
		{"sent, some payload", false, capture.Options{Direction: capture.Out, HeadersOnly: true, Payload: 6000}},
		{"traced", true, capture.Options{Hooks: []capture.Hook{capture.Entry, capture.Exit}, HeadersOnly: true}},
		{"traced, some payload", true, capture.Options{Hooks: []capture.Hook{capture.Exit}, HeadersOnly: true, Payload: 6000}},
		{"traced, flows", true, capture.Options{Hooks: []capture.Hook{capture.Entry}, HeadersOnly: true, First: 5, Filter: "ip or ip6 or vlan"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.traced {
				testnet.RequireFentry(t)
			}
			eachTransport(t, func(t *testing.T, transport capture.Transport) {
				if testnet.Shared(i + int(transport)) {
					testHeadersOnly(t, test.traced, test.options, transport)
				}
			})
		})
	}
}

func testHeadersOnly(t *testing.T, traced bool, o capture.Options, transport capture.Transport) {
	pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	if traced {
		target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags) // passes every frame
		must(t, err)
		defer target.Close()
	}
	path, payload := testnet.TxToRx(), bytes.Repeat([]byte{7}, 8000)
	ends := make(map[int]int) // of headers, by the length of the frame
	var frames [][]byte
	for _, f := range []struct {
		frame []byte
		end   int
	}{
		{path.UDP(1, 2, payload[:100]), 42},
		{path.UDPv6(1, 2, payload[:200]), 62},
		{path.TCP(testnet.Segment{SrcPort: 1, DstPort: 2, Payload: payload[:300]}), 54},
		{testnet.VLAN(path.UDP(1, 2, payload[:400]), 5), 46},
		{path.UDP(1, 2, payload), 42},
		{testnet.VLAN(path.TCPv6(testnet.Segment{SrcPort: 1, DstPort: 2, Payload: payload}), 5), 78},
	} {
		ends[len(f.frame)] = f.end
		frames = append(frames, f.frame)
	}
	ns, name := pair.Rx, pair.RxName
	if o.Direction == capture.Out {
		ns, name = pair.Tx, pair.TxName
	}
	o.Interfaces, o.Transport = []string{name}, transport
	s := capture.OpenAt(t, ns, o)
	testnet.Send(t, pair, frames...)
	// Without a native program, frames have arrived before the kernel has handled them.
	want := uint64(len(frames) * len(s.Sources()))
	testnet.WaitFor(t, "the programs to see the frames", func() bool { return total(t, s).Seen >= want })
	s.Stop()
	n := 0
	for p, err := range s.Packets(t.Context()) {
		must(t, err)
		n++
		whole := int(p.WireLen)
		if want := min(ends[whole]+o.Payload, whole); ends[whole] == 0 || len(p.Data) != want {
			t.Errorf("%d bytes of %d, want %d", len(p.Data), whole, want)
		}
	}
	if a := total(t, s); a.Seen != want || a.Captured != want || n != int(want) {
		t.Errorf("%d packets, %+v", n, a)
	}
}
