package capture_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

func open(t *testing.T, pair *testnet.Pair, o capture.Options) *capture.Session {
	t.Helper()
	o.Interfaces = []string{pair.RxName}
	var s *capture.Session
	err := pair.Rx.Do(func() (err error) {
		s, err = capture.Open(o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newPair(t *testing.T) (*testnet.Pair, *testnet.Sender) {
	t.Helper()
	testnet.RequireRoot(t)
	pair, err := testnet.NewPair(testnet.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pair.Close() })
	sender, err := testnet.NewSender(pair.Tx, pair.TxName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sender.Close() })
	return pair, sender
}

func send(t *testing.T, sender *testnet.Sender, n int) {
	t.Helper()
	for i := range n {
		if err := sender.Send(testnet.UDPFrame(64, uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// Stop, called by another goroutine while Read waits, loses nothing of what was captured before.
func TestStop(t *testing.T) {
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	send(t, sender, 100)
	time.AfterFunc(10*time.Millisecond, s.Stop) // before Read would look into the rings by itself
	var p capture.Packet
	for i := range 100 {
		if err := s.Read(&p); err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if seq, ok := testnet.Sequence(p.Data); !ok || seq != uint64(i) || p.WireLen != 64 || p.Dropped != 0 {
			t.Errorf("packet %d is %+v", i, p)
		}
	}
	for range 2 {
		if err := s.Read(&p); err != io.EOF {
			t.Errorf("Read after the end: %v", err)
		}
	}
	want := capture.Counters{Seen: 100, Captured: 100, Bytes: 6400}
	if st, err := s.Stats(); err != nil || st.Counters != want || st.Interfaces[0] != want {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Read(&p); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if st, err := s.Stats(); err != nil || st.Counters != want {
		t.Errorf("after Close: %+v, %v", st, err)
	}
}

// After Count packets the session ends by itself, and what came on top of them is accounted for.
func TestCount(t *testing.T) {
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{Count: 10})
	send(t, sender, 100)
	var p capture.Packet
	n := 0
	for ; s.Read(&p) == nil; n++ {
	}
	want := capture.Counters{Seen: 100, NotSampled: 90, Captured: 10, Bytes: 640}
	if st, err := s.Stats(); err != nil || st.Counters != want || n != 10 {
		t.Errorf("%d packets, %+v, %v", n, st.Counters, err)
	}
}

// Immediate hands a packet over without waiting for more or for the flush.
func TestImmediate(t *testing.T) {
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{Immediate: true})
	var p capture.Packet
	best := time.Hour
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		before := time.Now()
		send(t, sender, 1)
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(before))
	}
	if best > 20*time.Millisecond { // the flush is every 50
		t.Errorf("it took at least %v", best)
	}
}

// A ring that has woken its reader is read as soon as the order of what it holds is final: it may be full before long.
func TestFilling(t *testing.T) {
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{Buffer: capture.MinBuffer})
	var p capture.Packet
	best := time.Hour
	for range 20 {
		before := time.Now()
		for n := range 40 {
			if err := sender.Send(testnet.UDPFrame(1500, uint64(n))); err != nil {
				t.Fatal(err)
			}
		}
		for range 40 {
			if err := s.Read(&p); err != nil {
				t.Fatal(err)
			}
		}
		best = min(best, time.Since(before))
	}
	if best > 40*time.Millisecond && !testnet.Emulated() { // the flush is every 50; an emulated machine takes as long
		t.Errorf("it took at least %v", best)
	}
}

// While a session runs, Stats may be asked by anyone.
func TestStatsWhileRunning(t *testing.T) {
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	send(t, sender, 50)
	var p capture.Packet
	for range 50 {
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			if st, err := s.Stats(); err != nil || st.Seen != 50 {
				t.Errorf("%+v, %v", st, err)
				return
			}
		}
	}()
	<-done
	s.Stop()
}

// A second session on the same interface samples the first one's program, or says why it cannot. Either way
// the first goes on.
func TestSecondSession(t *testing.T) {
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
	if err != nil && !strings.Contains(err.Error(), "trace XDP program sample_xdp (id ") {
		t.Errorf("the error does not name the program: %v", err)
	}
	send(t, sender, 1)
	var p capture.Packet
	if err := s.Read(&p); err != nil {
		t.Error(err)
	}
}
