package drops

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The packets that listeners refuse are losses of the machine, with the listener and its process,
// and never of an interface. Each counts once, also the last of a handshake, which the tracepoint
// has, too.
func TestListeners(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.meet()
	n.set("ipv4/tcp_syncookies", "0")
	program := filepath.Base(os.Args[0])
	program = program[:min(len(program), 15)]
	where := func(port uint16, backlog int) string {
		return fmt.Sprintf("%s[%d] :%d, backlog %d", program, os.Getpid(), port, backlog)
	}
	full, half, third, last := n.accept(0), n.accept(8), n.accept(3), n.accept(8)
	before := n.counters()
	one, all := n.openMeter(), n.openMeterOf(Options{})
	n.fillListener(full, 0)
	n.connect(20, full)
	want := map[Loss]uint64{{Stage: Socket, Reason: acceptQueueFull, Where: where(full, 0)}: 20}
	n.checkListeners(one, all, want)

	n.connect(30, half)
	refused := n.counters().Since(before)["TcpExtTCPReqQFullDrop"]
	if refused < 10 || refused > 30-8 {
		t.Errorf("%d of 30 connections found no room", refused)
	}
	want[Loss{Stage: Socket, Reason: requestQueueFull, Where: where(half, 8)}] = refused
	n.checkListeners(one, all, want)

	n.fillListener(third, 3)
	n.connect(5, full)
	n.connect(7, third)
	want[Loss{Stage: Socket, Reason: acceptQueueFull, Where: where(full, 0)}] = 25
	want[Loss{Stage: Socket, Reason: acceptQueueFull, Where: where(third, 3)}] = 7
	n.checkListeners(one, all, want)

	// Of the last packets of four handshakes, one finds room. The tracepoint has the others.
	n.fillListener(last, 7)
	n.finish(last, 4)
	c := n.counts(all)
	found := uint64(0)
	for l, tally := range c.Losses {
		if l.Reason == acceptQueueFull && l.Netns == 0 {
			t.Logf("%+v %+v", l, tally)
			found += tally.Packets
		}
	}
	if found != 25+7+3 {
		t.Errorf("%d packets found no room, want %d", found, 25+7+3)
	}
}

// checkListeners checks what the meters of one interface and of all have of these listeners.
func (n *network) checkListeners(one, all *Meter, want map[Loss]uint64) {
	n.Helper()
	of := n.counts(one)
	if len(of.Losses) > 0 {
		n.Errorf("losses of the interface: %v", of.Losses)
	}
	for name, losses := range map[string]map[Loss]Tally{"one": of.Listeners, "all": n.counts(all).Losses} {
		got := make(map[Loss]uint64)
		for l, tally := range losses {
			if strings.Contains(l.Where, ", backlog ") {
				got[l] = tally.Packets
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			n.Errorf("%s: %s", name, diff)
		}
	}
}

// fillListener makes one connection more than may wait for accept.
func (n *network) fillListener(port uint16, backlog int) {
	n.Helper()
	n.must(n.Tx.Do(func() error {
		for range backlog + 1 {
			conn, err := net.Dial("tcp4", fmt.Sprintf("%v:%d", testnet.RxEndpoint.IPv4, port))
			if err != nil {
				return err
			}
			n.Cleanup(func() { conn.Close() })
		}
		return nil
	}))
}

// finish begins connections, and sends the last packets of their handshakes when all are half open.
func (n *network) finish(port uint16, connections int) {
	n.Helper()
	var fd int
	n.must(n.Tx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
		return err
	}))
	defer unix.Close(fd)
	n.connect(connections, port)
	path := testnet.Path{Src: other, Dst: testnet.RxEndpoint}
	for buf := make([]byte, 2000); connections > 0; {
		size, err := unix.Read(fd, buf)
		n.must(err)
		const tcp = 14 + 20
		if size < tcp+20 || buf[14+9] != unix.IPPROTO_TCP || binary.BigEndian.Uint16(buf[tcp:]) != port || buf[tcp+13] != 0x12 { // SYN and ACK
			continue
		}
		n.must(n.sender.Send(path.TCP(testnet.Segment{
			SrcPort: binary.BigEndian.Uint16(buf[tcp+2:]), DstPort: port, Seq: 2, Ack: binary.BigEndian.Uint32(buf[tcp+4:]) + 1,
		})))
		connections--
	}
	testnet.WaitHandled(n)
}

// What the counters say is divided among reasons, without packets that are counted elsewhere.
func TestListenerLosses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ drops, overflows, requests, known, wantFull, wantRequests, wantRest uint64 }{
		{},
		{drops: 36, overflows: 36, wantFull: 36},
		{drops: 36, overflows: 20, requests: 10, wantFull: 20, wantRequests: 10, wantRest: 6},
		{drops: 36, overflows: 20, requests: 10, known: 5, wantFull: 15, wantRequests: 10, wantRest: 6},
		{drops: 36, overflows: 20, requests: 10, known: 23, wantRequests: 10, wantRest: 3},
		{drops: 36, overflows: 20, requests: 10, known: 100, wantRequests: 10},
		{drops: 35, overflows: 36, wantFull: 36}, // one is not yet counted as dropped
	} {
		got := listenerLossesOf(lost.Counters{"TcpExtListenDrops": test.drops, "TcpExtListenOverflows": test.overflows, "TcpExtTCPReqQFullDrop": test.requests}, test.known)
		want := listenerLosses{acceptQueueFull: test.wantFull, requestQueueFull: test.wantRequests, notAccepted: test.wantRest}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
	}
}

// Losses belong to the listener whose drops rose, and to all of these where nobody knows whose they
// are.
func TestAttribute(t *testing.T) {
	t.Parallel()
	before := map[uint64]listener{1: {"a", 5}, 2: {"b", 0}, 3: {"c", 7}}
	now := func(a, b, c uint64) map[uint64]listener {
		return map[uint64]listener{1: {"a", 5 + a}, 2: {"b", b}, 3: {"c", 7 + c}, 4: {"a", 0}}
	}
	full := func(where string) Loss { return Loss{Stage: Socket, Reason: acceptQueueFull, Where: where} }
	rest := func(where string) Loss { return Loss{Stage: Socket, Reason: notAccepted, Where: where} }
	for name, test := range map[string]struct {
		lately listenerLosses
		now    map[uint64]listener
		want   map[Loss]uint64
	}{
		"one":              {listenerLosses{acceptQueueFull: 4, notAccepted: 2}, now(6, 0, 0), map[Loss]uint64{full("a"): 4, rest("a"): 2}},
		"two of a reason":  {listenerLosses{acceptQueueFull: 4}, now(1, 0, 3), map[Loss]uint64{full("a"): 1, full("c"): 3}},
		"two of reasons":   {listenerLosses{acceptQueueFull: 4, notAccepted: 1}, now(2, 3, 0), map[Loss]uint64{full("a; b"): 4, rest("a; b"): 1}},
		"at this moment":   {listenerLosses{acceptQueueFull: 4}, now(2, 3, 4), map[Loss]uint64{full("a; b; c"): 4}},
		"a closed one":     {listenerLosses{acceptQueueFull: 4}, now(0, 0, 0), map[Loss]uint64{full(""): 4}},
		"another's closed": {listenerLosses{acceptQueueFull: 4}, map[uint64]listener{2: {"b", 4}}, map[Loss]uint64{full("b"): 4}},
	} {
		if diff := cmp.Diff(test.want, attribute(test.lately, dropsByListener(before, test.now))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
