package drops_test

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With a filter, drops shows the way of the packets that match, in its sandbox, as JSON and as a
// picture; losses of others are not in the table.
func TestDropsWay(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.MustKnow(t, pair.Rx, pair.RxIndex, testnet.TxEndpoint)
	const filter = "udp dst port 9 or udp dst port 10"
	p, output := systest.Counting(t, pair, "drops", "-i", "rx0", "--interval", "100ms", "--json", filter)
	systest.SendClosed(t, pair, 9, 9, 10, 11)
	testnet.WaitHandled(t)
	p.Interrupt()
	r := systest.LastObject[systest.DropsReport](t, output())
	if r.Filter != filter || r.Total.Packets != 3 || r.Way == nil || len(r.Way.Stages) != 3 || len(r.Way.Notes) > 0 {
		t.Fatalf("%+v, way %+v", r, r.Way)
	}
	stack, socket := r.Way.Stages[1], r.Way.Stages[2]
	if stack.Came.Packets != 3 || stack.Lost.Packets != 3 || stack.Elsewhere.Packets != 0 || stack.Losses[0].Reason != "NO_SOCKET" || socket.Came.Packets != 0 {
		t.Errorf("%+v", r.Way)
	}

	p, output = systest.Counting(t, pair, "drops", "-i", "rx0", "-q", filter)
	systest.SendClosed(t, pair, 9, 11)
	testnet.WaitHandled(t)
	p.Interrupt()
	text := output()
	for _, want := range []string{"rx0, " + filter, "\ncard -- ", "/s --> stack -- 0/s --> socket\n0 lost ", " NO_SOCKET\n\nSTAGE "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// With -i any, drops counts what is lost at all interfaces of its network namespace.
func TestDropsAny(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.MustKnow(t, pair.Rx, pair.RxIndex, testnet.TxEndpoint)
	p, output := systest.Counting(t, pair, "drops", "-i", "any", "--interval", "100ms", "--json")
	systest.SendClosed(t, pair, 9, 10)
	testnet.WaitHandled(t)
	p.Interrupt()
	r := systest.LastObject[systest.DropsReport](t, output())
	if r.Interface != "any" || r.Total.Packets != 2 || r.Losses[0].Device != "rx0" {
		t.Errorf("%+v", r)
	}
}
