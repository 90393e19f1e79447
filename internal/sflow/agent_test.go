package sflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen is a collector on loopback.
func listen(t testing.TB) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // for tests that fail
	return conn
}

func description() capture.Description {
	return capture.Description{Sources: []capture.Source{
		{Name: "a", Hook: capture.Entry, Index: 7, Target: capture.Program{ID: 1, Name: "guard"}},
		{Name: "a", Hook: capture.Exit, Index: 7, Target: capture.Program{ID: 1, Name: "guard"}},
		{Name: "b", Hook: capture.Exit, Index: 9, Target: capture.Program{ID: 2, Name: "other"}},
		{Name: "b", Hook: capture.Egress, Index: 9},
	}}
}

// begun is an agent that has begun, without counters.
func begun(t testing.TB, o AgentOptions, d capture.Description) *Agent {
	t.Helper()
	a, err := OpenAgent(o)
	must(t, err)
	t.Cleanup(func() { a.Close() })
	must(t, a.Begin(d))
	return a
}

// receive returns the next datagram, and of each of its samples the words at these places, of which
// the first is its type.
func receive(t testing.TB, conn *net.UDPConn, places ...int) (samples [][]uint32, datagram []byte) {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := conn.Read(b)
	must(t, err)
	at := 28
	for range binary.BigEndian.Uint32(b[24:]) {
		var words []uint32
		for _, place := range places {
			words = append(words, binary.BigEndian.Uint32(b[at+place:]))
		}
		samples = append(samples, words)
		at += 8 + int(binary.BigEndian.Uint32(b[at+4:]))
	}
	if at != n {
		t.Errorf("%d bytes of samples in a datagram of %d", at, n)
	}
	return samples, b[:n]
}

// packetOf is a packet of this size.
func packetOf(size int, facts capture.Facts) []capture.Packet { return packetFrom(0, size, facts) }

func packetFrom(source, size int, facts capture.Facts) []capture.Packet {
	facts.WireLen = uint32(size)
	return []capture.Packet{{Facts: &facts, Source: uint16(source), Data: make([]byte, size)}}
}

// deliver writes a packet, and sends the waiting datagrams.
func (a *Agent) deliver(packet []capture.Packet) {
	a.Write(packet)
	a.sendBegunBefore(time.Now())
}

// stall makes the socket refuse datagrams until accept is called.
func (a *Agent) stall() (accept func()) {
	write := a.collector.write
	a.collector.write = func(uintptr) bool {
		a.collector.err = unix.ENOBUFS
		return true
	}
	return func() { a.collector.write = write }
}

// A packet makes a flow sample if its source is to be sampled, and a notification if it was
// discarded, in datagrams of at most the allowed length, however long the packet is. Packets
// without a sample count as taken, too.
func TestSamples(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String(), Header: 9000}, description())
	for _, tt := range []struct {
		name            string
		source          int
		verdict         capture.Verdict
		common, special uint32 // samples
	}{
		{"entry", 0, capture.Drop, 1, 0},
		{"exit with an entry, passed", 1, capture.Pass, 0, 0},
		{"exit with an entry, dropped", 1, capture.Drop, 0, 1},
		{"exit alone, passed", 2, capture.Pass, 1, 0},
		{"exit alone, aborted", 2, capture.Aborted, 1, 1},
	} {
		must(t, a.Write(packetFrom(tt.source, 9000, capture.Facts{Verdict: tt.verdict})))
		if a.common.oldest().samples != tt.common || a.discards.oldest().samples != tt.special {
			t.Errorf("%s: %d and %d samples, want %d and %d", tt.name, a.common.oldest().samples, a.discards.oldest().samples, tt.common, tt.special)
		}
		a.sendBegunBefore(time.Now())
		for range tt.common + tt.special {
			if samples, b := receive(t, conn, 0); len(samples) != 1 || len(b) > maxDatagram || len(b) < maxDatagram*3/4 {
				t.Errorf("%s: samples %v in a datagram of %d bytes", tt.name, samples, len(b))
			}
		}
	}
	final := capture.Accounts{{Seen: 1, Captured: 1}, {Seen: 2, Captured: 2}, {Seen: 2, Captured: 2}, {}}
	accounts, err := a.End(final)
	if err != nil || accounts.Total().Captured != 5 || accounts.Total().Bytes != 5*9000 {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
}

// Both directions of an interface are one data source: its samples are numbered together, and the
// pool is that of both. A sent packet has an output interface, and no input interface.
func TestDirections(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, description())
	for _, source := range []int{2, 3} {
		a.Write(packetFrom(source, 60, capture.Facts{Verdict: capture.Tx}))
	}
	if _, err := a.End(capture.Accounts{{}, {}, {Seen: 4, Lost: 3, Captured: 1}, {Seen: 1, Captured: 1}}); err != nil {
		t.Fatal(err)
	}
	// Sequence, source, rate, pool, drops, input, output.
	got, _ := receive(t, conn, 8, 12, 16, 20, 24, 28, 36, 44)
	want := [][]uint32{{1, 0, 9, 4, 5, 3, 9, 9}, {2, 0, 9, 1, 5, 3, 0, 9}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flow samples: %s", diff)
	}
}

// A flow sample has the packet's output interface, if it is known.
func TestOutput(t *testing.T) {
	t.Parallel()
	d := description()
	a := Agent{description: d, sampled: make(map[direction]bool), known: make(map[int]*dataSource)}
	a.list = capture.NewSourceList(&d)
	for i := range d.Sources {
		a.add(i)
	}
	sources := a.sources
	const elsewhere = capture.Outlet(1<<31 | 5)
	if !elsewhere.IsElsewhere() {
		t.Fatal("this is an interface of another namespace")
	}
	for _, tt := range []struct {
		source int
		facts  capture.Facts
		want   Interface
	}{
		{0, capture.Facts{}, Interface{}},
		{2, capture.Facts{Verdict: capture.Aborted}, Interface{Format: IsDiscard, Value: uint32(reasonXDP)}},
		{2, capture.Facts{Verdict: capture.Pass}, Interface{}},
		{2, capture.Facts{Verdict: capture.Tx}, Interface{Value: 9}},
		{2, capture.Facts{Verdict: capture.Redirect}, Interface{}},
		{2, capture.Facts{Verdict: capture.Redirect, To: 4}, Interface{Value: 4}},
		{2, capture.Facts{Verdict: capture.Redirect, To: elsewhere}, Interface{}},
		{3, capture.Facts{}, Interface{Value: 9}},
	} {
		if got := sources[tt.source].output(&capture.Packet{Facts: &tt.facts}); got != tt.want {
			t.Errorf("source %d, %+v: %+v, want %+v", tt.source, tt.facts, got, tt.want)
		}
	}
}

// Samples do not wait for others for long, and many of them fill a datagram.
func TestFlush(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, description())
	one := packetOf(200, capture.Facts{})
	for !a.common.isFull() {
		a.Write(one)
	}
	for i := range a.common.datagrams { // however long the test took
		a.common.datagrams[i].begun = time.Now().Add(time.Hour)
	}
	if a.Flush(); a.sequence != 0 {
		t.Error("a datagram was sent before it could wait for others")
	}
	for range 10 {
		a.Write(one)
	}
	if n := a.sequence; n == 0 || n > 2 {
		t.Errorf("%d datagrams were sent, because others come", n)
	}
	if samples, b := receive(t, conn); len(samples) < 6 || len(b) > maxDatagram {
		t.Errorf("%d samples in a datagram of %d bytes", len(samples), len(b))
	}
	for i := range a.common.datagrams {
		a.common.datagrams[i].begun = time.Now().Add(-holdTime)
	}
	if a.Flush(); a.common.oldest().samples != 0 || a.sources[0].waiting != 0 {
		t.Errorf("%d samples still wait", a.sources[0].waiting)
	}
	if n := a.sequence; n < commonLength {
		t.Errorf("%d datagrams were sent", n)
	}
}

// Datagrams that the socket refuses are lost, and counted as refused and in the drops of later
// samples.
func TestNotTaken(t *testing.T) {
	t.Parallel()
	var notices []error
	a := begun(t, AgentOptions{Collector: listen(t).LocalAddr().String(), Notice: func(err error) { notices = append(notices, err) }}, description())
	a.stall()
	for range 3 {
		a.deliver(packetOf(60, capture.Facts{}))
	}
	live, err := a.Accounts(func() (capture.Accounts, error) { return capture.Accounts{{Seen: 3, Captured: 3}, {}, {}, {}}, nil })
	if want := (capture.Account{Seen: 3, Lost: 3, NotTaken: 3}); err != nil || live[0] != want {
		t.Errorf("before the end %+v, want %+v: %v", live[0], want, err)
	}
	if a.sources[0].refused != 3 || len(notices) != 1 || !errors.Is(notices[0], unix.ENOBUFS) {
		t.Errorf("%d refused, notices %v", a.sources[0].refused, notices)
	}
	a.Write(packetOf(60, capture.Facts{}))
	accounts, err := a.End(capture.Accounts{{Seen: 4, Captured: 4}, {}, {}, {}})
	if err != nil || accounts[0].NotTaken != 4 || accounts[0].Captured != 0 || a.sequence != 4 || a.Size() != 0 {
		t.Errorf("accounts %+v, %d datagrams, %d bytes, %v", accounts[0], a.sequence, a.Size(), err)
	}
	if drops := a.sources[0].data.drops; drops != 3 {
		t.Errorf("the last sample says that %d were dropped before it, want 3", drops)
	}
}

// A notification that the socket does not take is counted in the next one of its source.
func TestDiscardsNotTaken(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, description())
	dropped := packetFrom(1, 60, capture.Facts{Verdict: capture.Drop})
	accept := a.stall()
	for range 3 {
		a.deliver(dropped)
	}
	accept()
	a.deliver(dropped)
	if got, _ := receive(t, conn, 20); !cmp.Equal(got, [][]uint32{{3}}) {
		t.Errorf("the notification says that there were none for %v packets before it, want 3", got)
	}
	if _, err := a.End(capture.Accounts{{}, {Seen: 4, Captured: 4}, {}, {}}); err != nil {
		t.Error(err)
	}
}

// A datagram that finds out that one before it was refused is sent all the same.
func TestBounced(t *testing.T) {
	t.Parallel()
	// The agent sends from 127.0.0.1, whose port may be this one. On the same address it would then
	// be the collector itself, and no datagram would be refused.
	gone, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	must(t, err)
	gone.Close()
	var notices []error
	a := begun(t, AgentOptions{Collector: gone.LocalAddr().String(), Notice: func(err error) { notices = append(notices, err) }}, description())
	a.deliver(packetOf(60, capture.Facts{}))
	waitForError(t, a.collector)
	back, err := net.ListenUDP("udp4", gone.LocalAddr().(*net.UDPAddr))
	must(t, err)
	defer back.Close()
	back.SetReadDeadline(time.Now().Add(10 * time.Second))
	a.deliver(packetOf(60, capture.Facts{}))
	receive(t, back)
	if a.sequence != 2 || len(notices) != 1 || !errors.Is(notices[0], errBounced) {
		t.Errorf("%d datagrams, notices %v", a.sequence, notices)
	}
}

// waitForError waits until the kernel has an error for the next call, which it does not take.
func waitForError(t *testing.T, c *collector) {
	t.Helper()
	polled := []unix.PollFd{{}}
	c.raw.Control(func(fd uintptr) {
		polled[0].Fd = int32(fd)
		for err := error(unix.EINTR); errors.Is(err, unix.EINTR); {
			_, err = unix.Poll(polled, 60_000) // ms; poll always reports errors
		}
	})
	if polled[0].Revents&unix.POLLERR == 0 {
		t.Fatal("the kernel does not say that a datagram was refused")
	}
}

// A discarded packet's notification counts the missing notifications: one in 10 is drawn, and some
// of these were lost. The waiting samples are sent at the end.
func TestUnnoticed(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	d := description()
	d.Options.Sample = 10
	final := capture.Accounts{{}, {Seen: 50, NotSampled: 45, Lost: 3, Captured: 2}, {Seen: 20, NotSampled: 18, Captured: 2}, {}}
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, d)
	for _, source := range []int{1, 1, 2, 2} {
		a.Write(packetFrom(source, 60, capture.Facts{Verdict: capture.Drop}))
	}
	if accounts, err := a.End(final); err != nil || accounts.Total().Captured != 4 {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
	receive(t, conn) // the flow samples of source 2
	drops, _ := receive(t, conn, 20)
	if diff := cmp.Diff([][]uint32{{24}, {48}, {9}, {18}}, drops); diff != "" {
		t.Errorf("packets without a notification: %s", diff)
	}
	if a.sources[1].waiting != 0 {
		t.Errorf("%d samples still wait", a.sources[1].waiting)
	}
}

// A packet that the stack drops has a notification with the kernel's reason, and no flow sample:
// flow samples are of packets that the interface receives. The notifications count the packets that
// were not drawn.
func TestStackDrops(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	d := description()
	d.Sources = append([]capture.Source{{Name: "a", Hook: capture.StackDrop, Index: 7}}, d.Sources...)
	d.Options.Sample = 10
	d.ReasonName = func(_ uint16, f *capture.Facts) string {
		return []string{"NOT_SPECIFIED", "NO_SOCKET", "NEW"}[f.Reason]
	}
	d.LocationName = func(at capture.Location) string { return fmt.Sprint("function", at) }
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, d)
	for reason := range capture.Reason(3) {
		a.Write(packetOf(60, capture.Facts{Reason: reason, Location: capture.Location(reason + 1)}))
	}
	a.Write(packetFrom(1, 60, capture.Facts{}))
	final := capture.Accounts{{Seen: 30, NotSampled: 27, Captured: 3}, {Seen: 10, NotSampled: 9, Captured: 1}, {}, {}, {}}
	accounts, err := a.End(final)
	if err != nil || accounts[0] != (capture.Account{Seen: 30, NotSampled: 27, Captured: 3, Bytes: 180}) || accounts[1].Captured != 1 {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
	if data := a.known[7]; data.flowNumber != 1 || data.discardNumber != 3 {
		t.Errorf("%d flow samples, %d notifications", data.flowNumber, data.discardNumber)
	}
	if kinds, _ := receive(t, conn, 0); !cmp.Equal(kinds, [][]uint32{{3}}) {
		t.Errorf("samples %v before those of discarded packets", kinds)
	}
	got, b := receive(t, conn, 8, 16, 20, 24, 32) // sequence, source, drops, input, reason
	want := [][]uint32{{1, 7, 9, 0, 256}, {2, 7, 18, 0, 3}, {3, 7, 27, 0, 256}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notifications: %s", diff)
	}
	for _, text := range []string{"\x09function1", "\x0dNOT_SPECIFIED", "\x09function2", "\x09NO_SOCKET", "\x09function3", "\x03NEW"} {
		if !strings.Contains(string(b), text) {
			t.Errorf("%q is not in the datagram", text)
		}
	}
}

// When the collector's name means another address, datagrams go there.
func TestTurn(t *testing.T) {
	t.Parallel()
	first, second := listen(t), listen(t)
	a, err := OpenAgent(AgentOptions{Collector: first.LocalAddr().String()})
	must(t, err)
	defer a.Close()
	a.collector.address = second.LocalAddr().String()
	a.Begin(description())
	a.collector.refused <- struct{}{}
	for deadline := time.Now().Add(10 * time.Second); a.collector.conn.RemoteAddr().String() != a.collector.address; a.Flush() {
		if time.Now().After(deadline) {
			t.Fatal("datagrams go to the old address")
		}
		time.Sleep(time.Millisecond)
	}
	a.deliver(packetOf(60, capture.Facts{}))
	receive(t, second)
}

// The agent's address is its address towards the collector, or the option's.
func TestAddress(t *testing.T) {
	t.Parallel()
	collector := listen(t).LocalAddr().String()
	for _, tt := range []struct{ asked, want netip.Addr }{
		{netip.Addr{}, netip.MustParseAddr("127.0.0.1")},
		{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::1")},
	} {
		a := begun(t, AgentOptions{Collector: collector, Address: tt.asked}, description())
		if a.options.Address != tt.want || a.options.SubAgent != 7 {
			t.Errorf("asked for %v: %v, %d", tt.asked, a.options.Address, a.options.SubAgent)
		}
	}
}

// By IPv6, too, and the agent's address is one.
func TestIPv6(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, description())
	a.deliver(packetOf(60, capture.Facts{}))
	b := make([]byte, 1500)
	n, err := conn.Read(b)
	must(t, err)
	agent, _ := netip.AddrFromSlice(b[8:24])
	samples, length := binary.BigEndian.Uint32(b[36:]), binary.BigEndian.Uint32(b[44:])
	if agent != netip.IPv6Loopback() || samples != 1 || n != 48+int(length) || a.collector.longest != maxDatagram {
		t.Errorf("agent %v, %d samples in %d bytes, %d at most", agent, samples, n, a.collector.longest)
	}
}

// The counters of an interface are sent, and an interface that does not exist is skipped.
func TestAgentCounters(t *testing.T) {
	t.Parallel()
	conn := listen(t)
	lo, err := net.InterfaceByName("lo")
	must(t, err)
	d := description()
	d.Sources[0].Index, d.Sources[1].Index, d.Sources[2].Index, d.Sources[3].Index = lo.Index, lo.Index, 1<<30, 1<<30
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String(), Interval: time.Hour}, d)
	read := <-a.polled
	a.addCounters(read)
	a.sendBegunBefore(time.Now())
	if samples, _ := receive(t, conn); len(samples) != 1 || len(read) != 1 {
		t.Fatalf("%d samples of %d interfaces", len(samples), len(read))
	}
	if c := read[0]; c.Index != uint32(lo.Index) || c.Type != ifTypeLoopback || !c.Up || !c.Running {
		t.Errorf("counters of lo: %+v", c)
	}
}

// Serial, as everything that counts allocations must be.
func TestAgentNoAllocations(t *testing.T) {
	conn := listen(t)
	d := description()
	d.Accounts = func() (capture.Accounts, error) { return nil, errors.ErrUnsupported }
	d.Sources = append(d.Sources, capture.Source{Name: "b", Hook: capture.StackDrop, Index: 9})
	d.ReasonName = func(uint16, *capture.Facts) string { return "NO_SOCKET" }
	d.LocationName = func(capture.Location) string { return "__udp4_lib_rcv" }
	a := begun(t, AgentOptions{Collector: conn.LocalAddr().String()}, d)
	var packets []capture.Packet
	for source, facts := range map[int]capture.Facts{0: {}, 2: {Verdict: capture.Drop}, 4: {Location: 1}} {
		packets = append(packets, packetFrom(source, 200, facts)...)
	}
	for range 1_000 { // until all datagrams' buffers have grown to their final size
		a.Write(packets)
	}
	if n := testing.AllocsPerRun(1_000, func() { a.Write(packets) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// With --drops, a packet that an XDP program drops has only a notification, too.
func TestDropsOfProgram(t *testing.T) {
	t.Parallel()
	d := description()
	d.Options.StackDrops = true
	a := begun(t, AgentOptions{Collector: listen(t).LocalAddr().String()}, d)
	a.Write(packetFrom(2, 60, capture.Facts{Verdict: capture.Drop}))
	if data := a.known[9]; data.flowNumber != 0 || data.discardNumber != 1 {
		t.Errorf("%d flow samples, %d notifications", data.flowNumber, data.discardNumber)
	}
}

func BenchmarkWrite(b *testing.B) {
	conn := listen(b)
	a := begun(b, AgentOptions{Collector: conn.LocalAddr().String()}, description())
	packets := []capture.Packet{{Facts: &capture.Facts{WireLen: 1500}, Data: make([]byte, 128)}}
	b.ReportAllocs()
	for b.Loop() {
		a.Write(packets)
	}
}
