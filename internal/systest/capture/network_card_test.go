package capture_test

import (
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// On a network card xdpcap captures in the driver, with and without --sink, and beside a program;
// and every packet is in the account.
func TestNetworkCard(t *testing.T) {
	t.Parallel()
	const sent = 50
	for _, test := range []struct {
		name, mode string
		args       []string
		arrive     int64
		beside     bool
	}{
		{"capture", "native", nil, sent, false},
		{"sink", "native", []string{"--sink"}, 0, false},
		{"beside a program", "", []string{"--rx-capture", "exit"}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pair := testnet.MustCards(t, testnet.PairOptions{})
			if test.beside {
				target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Rewriting)
				if err != nil {
					t.Fatal(err)
				}
				defer target.Close()
			}
			listener := listenIP(t, pair)
			p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", "rx0", "-w", os.DevNull, "-c", "50", "--json"}, test.args...)...)
			sender := testnet.MustSender(t, pair)
			for range sent {
				if err := sender.Send(testnet.TxToRx().UDP(1000, testnet.DropPort, make([]byte, 100))); err != nil {
					t.Fatal(err)
				}
			}
			// -c ends it. The driver finishes what it has received before it takes a program off.
			status, stderr := p.Wait()
			if status != 0 || !strings.Contains(stderr, test.mode) {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			if s := systest.Account(t, stderr); s.Captured != sent || s.Seen != sent {
				t.Errorf("summary %+v", s)
			}
			if got := listener(); got != test.arrive {
				t.Errorf("%d packets reached the stack, want %d", got, test.arrive)
			}
		})
	}
}
