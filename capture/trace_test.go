package capture

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A tracer copies as many bytes of a packet as its filter may ask for: none, where the filter asks
// for the length alone.
func TestTracedHead(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Rewriting)
	must(t, err)
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
			s := openAt(t, pair.Rx, Options{Interfaces: []string{pair.RxName}, Filter: test.filter})
			testnet.Send(t, pair, frame)
			s.Stop()
			var heads []kernel.SamplerHead
			must(t, s.sampler.Maps[kernel.SamplerMapHeads].Lookup(uint32(0), &heads))
			var copied []byte // by the CPU that the packet came to
			for _, head := range heads {
				if b := bytes.TrimRight(head.Bytes[:], "\x00"); len(b) > 0 {
					copied = b
				}
			}
			if want := bytes.TrimRight(frame[:test.copied], "\x00"); !bytes.Equal(copied, want) {
				t.Errorf("%d bytes were copied, want %d", len(copied), test.copied)
			}
			_, account := s.run(t)
			if a := account[0]; a.Seen != 1 || (a.Captured == 1) != test.match {
				t.Errorf("the account: %+v", a)
			}
		})
	}
}

// A packet that is inside the traced program when the session ends leaves it with its exit, and no
// other packet leaves in its place. Nothing is counted after that, also where another process keeps
// the tracers attached for a moment.
func TestPacketInsideAtEnd(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Waiting)
	must(t, err)
	defer target.Close()
	s := openAt(t, pair.Rx, Options{Interfaces: []string{pair.RxName}, Hooks: []Hook{Entry, Exit}})
	copies := testnet.LinksOf(t, s.roster.Source(0).Sampler.ID, s.roster.Source(1).Sampler.ID)
	sent := make(chan struct{})
	go func() {
		testnet.Send(t, pair, testnet.UDPFrame(testnet.MinFrame, 0))
		close(sent)
	}()
	testnet.WaitFor(t, "the packet inside the target", func() bool {
		inside, err := target.HasPacket()
		return inside || err != nil
	})
	inside := time.Now()
	stopped := make(chan struct{})
	go func() {
		s.Stop()
		close(stopped)
	}()
	var closed uint32
	testnet.WaitFor(t, "the end of the entries", func() bool {
		err := s.sampler.Maps[kernel.SamplerMapGates].Lookup(uint32(0), &closed)
		return closed == 1 || err != nil
	})
	atLeast := time.Since(inside)
	must(t, target.OpenGate())
	<-sent
	<-stopped
	testnet.Send(t, pair, testnet.UDPFrame(testnet.MinFrame, 1))
	for _, l := range copies {
		l.Close()
	}
	testnet.Send(t, pair, testnet.UDPFrame(testnet.MinFrame, 2))
	m, account := s.run(t)
	for _, p := range m.packets {
		ran := time.Duration(p.RunTime)
		if isExit := s.roster.Source(int(p.Source)).Hook == Exit; isExit && ran < atLeast || !isExit && ran != 0 {
			t.Errorf("at the %v: the program ran %v, and had the packet for %v", s.roster.Source(int(p.Source)).Hook, ran, atLeast)
		}
	}
	for i, a := range account {
		if want := (Account{Seen: 1, Captured: 1, Bytes: testnet.MinFrame}); a != want {
			t.Errorf("the account of the %v: %+v, want %+v", s.roster.Source(i).Hook, a, want)
		}
	}
}
