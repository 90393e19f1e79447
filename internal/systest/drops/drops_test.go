package drops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// drops separates packets that the XDP program drops from those that the stack drops, in its
// sandbox as well, and attaches no program to the interface.
func TestDrops(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	// The receiving side answers with ICMP errors, and does not send an ARP request for the other
	// side's address, because XDP would drop the reply, too.
	testnet.MustKnow(t, pair.Rx, pair.RxIndex, testnet.TxEndpoint)
	p, output := systest.Counting(t, pair, "drops", "-i", "rx0", "--interval", "100ms", "--flows", "1", "--json")
	closed := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	send := func(packets int) {
		testnet.Send(t, pair, slices.Repeat([][]byte{closed}, packets)...)
		testnet.WaitHandled(t)
	}
	send(30)
	if name := systest.Attached(t, pair); name != "" {
		t.Errorf("%s is attached", name)
	}
	receiver := testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{})
	send(20)
	receiver.Close()
	send(10)
	p.Interrupt()
	r := systest.LastObject[systest.DropsReport](t, output())
	found := make(map[string]uint64)
	strange := uint64(0) // drops in closed sockets of other tests, for which the kernel has no namespace
	for _, l := range r.Losses {
		if l.Where == "udp_destruct_common" {
			strange += l.Packets
		}
		found[string(l.Stage)+" "+l.Reason] += l.Packets
		if l.Stage == "stack" && !strings.Contains(l.Where, "udp") {
			t.Errorf("%s was lost in %q", l.Reason, l.Where)
		}
	}
	if found["XDP drop"] != 20 || found["stack NO_SOCKET"] != 40 || r.Total.Packets != 60+strange || r.Interface != "rx0" || r.Missed != 0 {
		t.Errorf("%v of %+v", found, r)
	}
	text := ""
	for _, f := range r.Flows {
		text += fmt.Sprintf("%s %s %s:%d %s:%d %d+%d, ", f.Stage, f.Reason, f.Source, f.SourcePort, f.Destination, f.DestinationPort, f.Packets, f.ErrorPackets)
	}
	for _, o := range r.Other {
		text += fmt.Sprintf("%s %d, ", o.Stage, o.Packets)
	}
	if want := fmt.Sprintf("stack NO_SOCKET 192.0.2.1:1000 192.0.2.2:9 40+0, XDP 20, stack %d, ", strange); text != want || r.Overflow == nil || r.Overflow.Flows != 0 {
		t.Errorf("flows: %s, want %s %+v", text, want, r.Overflow)
	}
}
