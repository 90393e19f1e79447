package capture_test

import (
	"errors"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A loss right before the session ends is told, too.
func TestLossAtEnd(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	var notices []error
	s := open(t, pair, capture.Options{
		Buffer: capture.MinBuffer,
		Notice: func(err error) { notices = append(notices, err) },
	})
	testnet.WaitFor(t, "a loss", func() bool {
		must(t, sender.Send(testnet.UDPFrame(1400, 0)))
		return total(t, s).Lost > 0
	})
	s.Stop()
	accounts, err := s.Run(t.Context(), &outputLog{room: 1000})
	must(t, err)
	final := accounts[0].Total()
	var loss *capture.Loss
	if len(notices) != 1 || !errors.As(notices[0], &loss) || loss.Lost != final.Lost || loss.Lost == 0 {
		t.Fatalf("notices %v, account %+v", notices, final)
	}
	if len(loss.Sources) != 1 || loss.Sources[0].Name != pair.RxName || loss.Wanted < loss.Lost || loss.Rate <= 0 {
		t.Errorf("figures %+v", loss)
	}
}
