package capture_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Packets that begin to be lost are told once, while the session runs, and with their cause.
func TestLoss(t *testing.T) {
	testnet.SkipEmulated(t)
	for _, test := range []struct {
		name string
		want capture.LossCause
	}{
		{"the output held up once", capture.Burst},
		{"the output held up until the notice", capture.SlowOutput},
	} {
		t.Run(test.name, func(t *testing.T) {
			testnet.WaitFor(t, "a loss in an interval that has other packets", func() bool { return testLoss(t, test.want) })
		})
	}
}

// testLoss returns false if the machine was too busy for the test. Packets must come all the time,
// for a loss that goes on, and the last packet that found room must come in the same interval as
// the first that found none. A busy machine may hold up this process for longer than the session
// measures.
func testLoss(t *testing.T, want capture.LossCause) bool {
	t.Helper()
	pair, sender := newPair(t)
	notices := make(chan error, 10)
	s := open(t, pair, capture.Options{
		Buffer: capture.MinBuffer,
		Notice: func(err error) { notices <- err },
	})
	goOn := make(chan struct{})
	out := &outputLog{room: 1 << 30, onWrite: func() { <-goOn }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	accounts := make(chan []capture.Accounts, 1)
	go func() {
		all, err := s.Run(ctx, out)
		if err != nil {
			t.Error(err)
		}
		accounts <- all
	}()

	const size = 1400
	var notice error
	var sent uint64
	total := func() capture.Account {
		accounts, err := s.Accounts()
		must(t, err)
		return accounts.Total()
	}
	released := false
	last, pause := time.Now(), time.Duration(0)
	testnet.WaitFor(t, "the notice", func() bool {
		now := total()
		switch {
		case want == capture.SlowOutput, now.Lost == 0 && now.Seen == sent: // or more are lost later
			must(t, sender.Send(testnet.UDPFrame(size, 0)))
			sent++
		case !released && now.Lost > 0:
			close(goOn)
			released = true
		}
		last, pause = time.Now(), max(pause, time.Since(last))
		select {
		case notice = <-notices:
			return true
		default:
			return false
		}
	})
	if !released {
		close(goOn)
	}
	var loss *capture.Loss
	if !errors.As(notice, &loss) {
		t.Fatalf("the notice is %v", notice)
	}
	t.Log(loss)
	heldUp := want == capture.SlowOutput && loss.Cause != want && pause > 100*time.Millisecond
	// The last packet that found room came before the interval in which the session measured.
	apart := loss.Wanted == loss.Lost
	if heldUp || apart {
		cancel()
		<-accounts
		return false
	}
	if loss.Cause != want {
		t.Errorf("the cause is %d, want %d", loss.Cause, want)
	}
	if loss.Lost == 0 || loss.Lost > total().Lost || loss.Wanted <= loss.Lost || loss.Elapsed <= 0 || loss.Rate <= 0 {
		t.Errorf("figures %+v; %d lost", loss, total().Lost)
	}
	if len(loss.Sources) != 1 || loss.Sources[0].Name != pair.RxName || loss.Buffer != capture.MinBuffer {
		t.Errorf("figures %+v", loss)
	}
	cancel()
	final := (<-accounts)[0].Total()
	if want == capture.Burst {
		same(t, []uint64{final.Lost, size}, []uint64{loss.Lost, uint64(loss.Size)}, "lost packets and their size")
		if loss.Enough < capture.MinBuffer+int(loss.Lost)*size {
			t.Errorf("%d bytes are said to be enough", loss.Enough)
		}
	}
	select {
	case second := <-notices:
		t.Errorf("a second notice: %v", second)
	default:
	}
	return true
}

// A loss right before the session ends is told, too.
func TestLossAtEnd(t *testing.T) {
	pair, sender := newPair(t)
	var notices []error
	s := open(t, pair, capture.Options{
		Buffer: capture.MinBuffer,
		Notice: func(err error) { notices = append(notices, err) },
	})
	testnet.WaitFor(t, "a loss", func() bool {
		must(t, sender.Send(testnet.UDPFrame(1400, 0)))
		accounts, err := s.Accounts()
		return err != nil || accounts.Total().Lost > 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	accounts, err := s.Run(ctx, &outputLog{room: 1000})
	must(t, err)
	var loss *capture.Loss
	if len(notices) != 1 || !errors.As(notices[0], &loss) || loss.Lost != accounts[0][0].Lost || loss.Lost == 0 {
		t.Errorf("notices %v, account %+v", notices, accounts[0])
	}
}
