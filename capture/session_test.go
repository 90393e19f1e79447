package capture_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

var (
	must = capture.Must
	same = capture.Same

	eachTransport = capture.EachTransport
)

func open(t *testing.T, pair *testnet.Pair, o capture.Options) *capture.Session {
	t.Helper()
	o.Interfaces = []string{pair.RxName}
	return capture.OpenAt(t, pair.Rx, o)
}

func newPair(t *testing.T) (*testnet.Pair, *testnet.Sender) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	return pair, testnet.MustSender(t, pair)
}

func send(t *testing.T, sender *testnet.Sender, n int) {
	t.Helper()
	for i := range n {
		must(t, sender.Send(testnet.UDPFrame(64, uint64(i))))
	}
}

// sendSeen sends packets and waits until the session's program has seen them all, because packets
// arrive some time after they were sent.
func sendSeen(t *testing.T, sender *testnet.Sender, s *capture.Session, n int) {
	t.Helper()
	send(t, sender, n)
	testnet.WaitFor(t, "the program to see the packets", func() bool { return total(t, s).Seen >= uint64(n) })
}

// reader returns a function that waits for the session's next packet; nil = there is none.
func reader(t *testing.T, s *capture.Session) func() *capture.Packet {
	t.Helper()
	next, stop := iter.Pull2(s.Packets(t.Context()))
	t.Cleanup(stop)
	return func() *capture.Packet {
		t.Helper()
		p, err, ok := next()
		must(t, err)
		if !ok {
			return nil
		}
		return p
	}
}

// total is the account of a session's sources, taken together.
func total(t *testing.T, s *capture.Session) capture.Account {
	t.Helper()
	accounts, err := s.Accounts()
	must(t, err)
	return accounts.Total()
}

func checkAccount(t *testing.T, s *capture.Session, want capture.Account) {
	t.Helper()
	got, err := s.Accounts()
	must(t, err)
	same(t, capture.Accounts{want}, got)
}

// A session ends when another goroutine stops it, when the context of a loop over its packets is
// done, and after Count packets. What was captured before is not lost, and what came on top of
// Count is accounted for.
func TestEnds(t *testing.T) {
	t.Parallel()
	all := capture.Account{Seen: 100, Captured: 100, Bytes: 6400}
	for _, test := range []struct {
		name  string
		count uint64
		end   func(s *capture.Session, cancel func())
		want  capture.Account
	}{
		{"stopped", 0, func(s *capture.Session, _ func()) { go s.Stop() }, all},
		{"context done", 0, func(_ *capture.Session, cancel func()) { cancel() }, all},
		{"count", 10, func(*capture.Session, func()) {}, capture.Account{Seen: 100, NotSampled: 90, Captured: 10, Bytes: 640}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair, sender := newPair(t)
			s := open(t, pair, capture.Options{Count: test.count})
			sendSeen(t, sender, s, 100)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			test.end(s, cancel)
			n := uint64(0)
			for p, err := range s.Packets(ctx) {
				must(t, err)
				seq, _ := testnet.Sequence(p.Data)
				same(t, []uint64{n, 64, 0}, []uint64{seq, uint64(p.WireLen), p.Dropped}, "packet %d: number, length and losses", n)
				n++
			}
			if n != test.want.Captured {
				t.Errorf("%d packets", n)
			}
			checkAccount(t, s, test.want)
			for range 2 {
				must(t, s.Close())
			}
			for _, err := range s.Packets(t.Context()) {
				if !errors.Is(err, os.ErrClosed) {
					t.Errorf("packets of a closed session: %v", err)
				}
			}
			checkAccount(t, s, test.want)
		})
	}
}

// untilQuick repeats f until it takes less time than a packet lies in a ring that is read only by
// the clock, every 50 ms. On a busy machine some tries take longer, whatever the session does.
func untilQuick(t *testing.T, f func()) {
	t.Helper()
	const tries = 100
	for range tries {
		before := time.Now()
		f()
		if time.Since(before) < 40*time.Millisecond {
			return
		}
	}
	t.Errorf("in %d tries it always took 40 ms or more", tries)
}

// Immediate hands a packet over without waiting for more or for the flush.
func TestImmediate(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport capture.Transport) {
		pair, sender := newPair(t)
		next := reader(t, open(t, pair, capture.Options{Immediate: true, Transport: transport}))
		untilQuick(t, func() {
			send(t, sender, 1)
			if next() == nil {
				t.Fatal("the session ended")
			}
		})
	})
}

// sharedTransports is eachTransport, but the two kernels that are always emulated run the test for
// one kind of transport each, because there it takes seconds.
func sharedTransports(t *testing.T, test func(t *testing.T, transport capture.Transport)) {
	for _, transport := range capture.Transports() {
		if testnet.Shared(int(transport)) {
			t.Run(transport.String(), func(t *testing.T) {
				t.Parallel()
				test(t, transport)
			})
		}
	}
}

// A ring that has woken its reader is read as soon as the order of its records is final, because it
// may be full before long.
func TestFilling(t *testing.T) {
	t.Parallel()
	eachTransport(t, testFilling)
}

func testFilling(t *testing.T, transport capture.Transport) {
	pair, sender := newPair(t)
	next := reader(t, open(t, pair, capture.Options{Buffer: capture.MinBuffer, Transport: transport}))
	fill := func() {
		for n := range 40 {
			must(t, sender.Send(testnet.UDPFrame(1500, uint64(n))))
		}
		for range 40 {
			if next() == nil {
				t.Fatal("the session ended")
			}
		}
	}
	if testnet.Emulated() {
		fill() // it takes as long to send the packets there as to wait for the clock
		return
	}
	untilQuick(t, fill)
}

// A second session on the same interface samples the first one's program, or says why it cannot.
// Either way the first goes on.
func TestSecondSession(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	err := pair.Rx.Do(func() error {
		second, err := capture.Open(capture.Options{Interfaces: []string{pair.RxName}})
		if err == nil {
			second.Close()
		}
		return err
	})
	if fentry := testnet.ProbeFentry(); (err == nil) != (fentry == nil) {
		t.Errorf("the second session: %v; fentry programs: %v", err, fentry)
	}
	if err != nil && !strings.Contains(err.Error(), "trace program xdpcap_") {
		t.Errorf("the error does not name the program: %v", err)
	}
	send(t, sender, 1)
	if reader(t, s)() == nil {
		t.Error("the first session ended")
	}
}
