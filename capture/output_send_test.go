package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// A Sender whose reader goes connects again, and begins a stream of its own. What came meanwhile is
// not taken.
func TestSenderReconnects(t *testing.T) {
	feedTest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	notices := make(chan error, 10)
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	s, err := NewSender("tcp://there", dial, func(err error) { notices <- err }, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(describeTwo()); err != nil {
		t.Fatal(err)
	}
	sent := make(Accounts, 2)
	write := func() {
		p := testPacket(int(sent.Total().Captured))
		sent[p.Source].Captured++
		sent[p.Source].Seen++
		if err := errors.Join(s.Write([]Packet{*p}), s.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if _, err := io.ReadFull(first, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	first.(*net.TCPConn).SetLinger(0)
	first.Close()
	for len(notices) == 0 { // until a write has failed
		write()
		runtime.Gosched()
	}
	if err := <-notices; !strings.HasPrefix(err.Error(), "tcp://there: the connection has ended, packets are not taken") {
		t.Error(err)
	}
	for range 10 {
		write()
	}
	second, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := <-notices; fmt.Sprint(err) != "tcp://there: connected again" {
		t.Error(err)
	}
	missed := sent.Total().Captured
	for range 10 {
		write()
	}
	ended := make(chan Accounts, 1)
	go func() {
		own, err := s.End(sent)
		if err != nil {
			t.Error(err)
		}
		ended <- own
	}()
	r := &feedReader{conn: second}
	if err := r.read(); err != nil || r.got.Load() != 10 {
		t.Errorf("the second stream has %d packets, want 10: %v", r.got.Load(), err)
	}
	own := (<-ended).Total()
	if own.Captured+own.NotTaken != sent.Total().Captured || own.NotTaken < 10 || own.Captured < 10 || own.Captured > 10+missed-10 {
		t.Errorf("account %+v of %+v", own, sent.Total())
	}
}
