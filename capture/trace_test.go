package capture

import (
	"bytes"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A tracer copies as many bytes of a packet as its filter may ask for: none, where the filter asks
// for the length alone.
func TestTracedHead(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	frame := testnet.TxToRx().UDP(1000, 53, slices.Repeat([]byte{0xff}, 40))
	for _, test := range []struct {
		filter string
		copied int
		match  bool
	}{
		{"greater 100", 0, false},
		{"less 100", 0, true},
		{"ip", 14, true},
		{"udp dst port 53", 78, true},
		{"ip[2:2] = 68", 18, true},
	} {
		t.Run(test.filter, func(t *testing.T) {
			var s *Session
			err := pair.Rx.Do(func() (err error) {
				s, err = Open(Options{Interfaces: []string{pair.RxName}, Filter: test.filter})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			testnet.Send(t, pair, frame)
			s.Stop()
			var heads []samplerHead
			if err := s.sampler.maps[samplerMapHeads].Lookup(uint32(0), &heads); err != nil {
				t.Fatal(err)
			}
			var copied []byte // by the CPU that the packet came to
			for _, head := range heads {
				if b := bytes.TrimRight(head.Bytes[:], "\x00"); len(b) > 0 {
					copied = b
				}
			}
			if want := bytes.TrimRight(frame[:test.copied], "\x00"); !bytes.Equal(copied, want) {
				t.Errorf("%d bytes were copied, want %d", len(copied), test.copied)
			}
			accounts, err := s.Run(t.Context(), new(memory))
			if err != nil {
				t.Fatal(err)
			}
			if a := accounts[0][0]; a.Seen != 1 || (a.Captured == 1) != test.match {
				t.Errorf("the account: %+v", a)
			}
		})
	}
}
