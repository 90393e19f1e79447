package main_test

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// drops tells the packets that the XDP program drops from those that the stack throws away, in its
// sandbox as well, and attaches nothing to the interface.
func TestDrops(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	p, output := counting(t, pair, "drops", "-i", "rx0", "--interval", "100ms", "--json")
	sender := testnet.MustSender(t, pair)
	closed := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	send := func(packets int) {
		for range packets {
			if err := sender.Send(closed); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(30)
	if name := attached(t, pair); name != "" {
		t.Errorf("%s is attached", name)
	}
	receiver := testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{})
	send(20)
	receiver.Close()
	send(10)
	p.interrupt()
	r := lastObject[dropsReport](t, output())
	found := make(map[string]uint64)
	for _, l := range r.Losses {
		found[l.Stage+" "+l.Reason] += l.Packets
		if l.Stage == "stack" && !strings.Contains(l.Where, "udp") {
			t.Errorf("%s was lost in %q", l.Reason, l.Where)
		}
	}
	if found["XDP drop"] != 20 || found["stack NO_SOCKET"] != 40 || r.Total.Packets != 60 || r.Interface != "rx0" || r.Missed != 0 {
		t.Errorf("%v of %+v", found, r)
	}
}
