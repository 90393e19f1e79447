package capture_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A dropTest is a pair whose receiving side loses packets, and a session that captures those.
type dropTest struct {
	*testing.T
	*testnet.Pair
	sender  *testnet.Sender
	session *capture.Session
	port    uint16 // of the socket that listen has opened
	sent    uint64 // frames that frame has made
}

func newDropTest(t *testing.T) *dropTest {
	t.Helper()
	return newDropTestOf(t, testnet.MustPair(t, testnet.PairOptions{Addresses: true}))
}

func newDropTestOf(t *testing.T, pair *testnet.Pair) *dropTest {
	t.Helper()
	return &dropTest{T: t, Pair: pair, sender: testnet.MustSender(t, pair)}
}

// begin begins a session. When a socket is closed, the kernel throws away what it had not read, and
// cannot tell the namespace of these packets any more. In other tests they went to ports that the
// kernel chose. So the filter passes only ports below 100, and that of this test's own socket.
func (d *dropTest) begin(o capture.Options) {
	d.Helper()
	own := fmt.Sprintf("udp and (net 192.0.2.0/24 or src 198.51.100.1) and (dst portrange 1-99 or dst port %d)", d.port)
	o.StackDrops, o.Filter = true, cmp.Or(o.Filter, own)
	d.session = open(d.T, d.Pair, o)
}

func (d *dropTest) must(err error) {
	d.Helper()
	must(d, err)
}

// onRx runs a function on the receiving side.
func (d *dropTest) onRx(do func() error) {
	d.Helper()
	d.must(d.Rx.Do(do))
}

// set sets a variable below /proc/sys/net on the receiving side.
func (d *dropTest) set(variable, value string) {
	d.Helper()
	d.onRx(func() error { return os.WriteFile("/proc/sys/net/"+variable, []byte(value), 0) })
}

// frame makes a frame to a UDP port that differs from every other one.
func (d *dropTest) frame(from testnet.Path, port uint16) []byte {
	d.sent++
	payload := bytes.Repeat([]byte{byte(d.sent)}, 100)
	binary.BigEndian.PutUint64(payload, d.sent)
	return from.UDP(1000, port, payload)
}

// send sends so many frames, and returns them.
func (d *dropTest) send(from testnet.Path, port uint16, n int) (frames [][]byte) {
	d.Helper()
	for range n {
		frames = append(frames, d.frame(from, port))
		d.must(d.sender.Send(frames[len(frames)-1]))
	}
	return frames
}

// listen opens a UDP socket that has room for few packets.
func (d *dropTest) listen() (conn *net.UDPConn, port uint16) {
	d.Helper()
	d.onRx(func() error {
		listening, err := net.ListenPacket("udp4", "192.0.2.2:0")
		if err != nil {
			return err
		}
		d.Cleanup(func() { listening.Close() })
		conn = listening.(*net.UDPConn)
		port = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
		d.port = port
		return conn.SetReadBuffer(1)
	})
	return conn, port
}

// waiting returns what is in a socket, and leaves it there.
func (d *dropTest) waiting(in *net.UDPConn) (payloads [][]byte) {
	d.Helper()
	socket, err := in.SyscallConn()
	d.must(err)
	var failed error
	d.must(socket.Control(func(fd uintptr) {
		// Each look begins where the one before has ended.
		for failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0); failed == nil; {
			payload, n := make([]byte, 200), 0
			if n, _, failed = unix.Recvfrom(int(fd), payload, unix.MSG_PEEK|unix.MSG_DONTWAIT); failed == nil {
				payloads = append(payloads, payload[:n])
			}
		}
	}))
	if failed != unix.EAGAIN {
		d.Fatal(failed)
	}
	return payloads
}

// accounts are those of the session's sources.
func (d *dropTest) accounts() capture.Accounts {
	d.Helper()
	all, err := d.session.Accounts()
	d.must(err)
	return all
}

// A thrownAway packet is a copy.
type thrownAway struct {
	cause   string // reason and location
	data    []byte
	wireLen uint32
	gsoSize uint32
}

// await waits until the session has seen a number of packets of the test, some of them filtered
// out.
func (d *dropTest) await(seen, out uint64) {
	d.Helper()
	testnet.WaitFor(d, fmt.Sprintf("%d lost packets", seen), func() bool {
		a := d.accounts()[0]
		return a.Matched() >= seen-out && a.FilteredOut >= out
	})
}

// end ends the session once it has seen a number of packets of the test, some of them filtered out,
// and returns the packets in their order.
func (d *dropTest) end(seen, out uint64) (packets []thrownAway, account capture.Account) {
	d.Helper()
	d.await(seen, out)
	d.session.Stop()
	description := d.session.Description()
	for p, err := range d.session.Packets(d.Context()) {
		d.must(err)
		reason, location := description.CauseNames(p.Source, p.Facts)
		packets = append(packets, thrownAway{reason + " " + location, bytes.Clone(p.Data), p.WireLen, p.GSOSize})
	}
	account = d.accounts()[0]
	if a := account; a.Seen != a.FilteredOut+a.NotSampled+a.Lost+a.Invalid+a.Captured || a.Matched() != seen-out || a.Captured != uint64(len(packets)) {
		d.Errorf("%d packets in hand, of %d: %+v", len(packets), seen, a)
	}
	account.Seen, account.FilteredOut = seen, out // without those of other tests
	return packets, account
}

// Each packet that the stack throws away is captured once, with its reason and all of its bytes;
// packets that arrive are not.
func TestStackDrops(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport capture.Transport) {
		const n = 20
		d := newDropTest(t)
		full, port := d.listen()
		d.begin(capture.Options{Transport: transport})
		want := make(map[string]string) // reasons by frames
		for _, f := range d.send(testnet.TxToRx(), 9, n) {
			want[string(f)] = "NO_SOCKET"
		}
		for _, f := range d.send(testnet.TxToRx(), port, n) {
			want[string(f)] = "SOCKET_RCVBUFF"
		}
		d.set("ipv4/conf/all/rp_filter", "1")
		d.set("ipv4/conf/rx0/rp_filter", "1")
		wrong := testnet.TxToRx()
		wrong.Src.IPv4 = net.IP{198, 51, 100, 1}
		for _, f := range d.send(wrong, port, n) {
			want[string(f)] = "IP_RPFILTER"
		}
		other := testnet.TxToRx()
		other.Dst.MAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}
		d.send(other, 9, n) // nobody misses these

		// What the socket has is not lost. It is left there, or it would make room for packets that
		// the kernel has yet to handle.
		var arrived [][]byte
		testnet.WaitFor(t, "all packets to be lost or in the socket", func() bool {
			arrived = d.waiting(full)
			return d.accounts()[0].Matched()+uint64(len(arrived)) == uint64(len(want))
		})
		for _, payload := range arrived {
			for f := range want {
				if strings.HasSuffix(f, string(payload)) {
					delete(want, f)
				}
			}
		}
		if len(arrived) == 0 || len(arrived) == n {
			t.Errorf("%d of %d packets to the full socket have arrived", len(arrived), n)
		}
		packets, _ := d.end(uint64(len(want)), 0)
		got := make(map[string]string)
		for _, p := range packets {
			reason, location, _ := strings.Cut(p.cause, " ")
			if location == "" || strings.HasPrefix(location, "0x") || int(p.wireLen) != len(p.data) {
				t.Errorf("%s: %d bytes of %d", p.cause, len(p.data), p.wireLen)
			}
			if got[string(p.data)] != "" {
				t.Errorf("%s: twice", p.cause)
			}
			got[string(p.data)] = reason
		}
		same(t, want, got)
	})
}

// A packet that is thrown away while another record of its CPU is being written goes by perf's
// ring, and comes in its order.
func TestStackDropsInterrupted(t *testing.T) {
	t.Parallel()
	const n = 20
	d := newDropTest(t)
	d.begin(capture.Options{Transport: capture.TransportRing})
	d.session.SetFilling(d.T, 1)
	want := d.send(testnet.TxToRx(), 9, n)
	d.await(n, 0)
	d.session.SetFilling(d.T, 0)
	want = append(want, d.send(testnet.TxToRx(), 9, n)...)
	packets, account := d.end(2*n, 0)
	var got [][]byte
	for _, p := range packets {
		got = append(got, p.data)
	}
	if diff := gocmp.Diff(want, got); diff != "" || account.Lost != 0 {
		t.Errorf("account %+v; %s", account, diff)
	}
}

// Filter, reasons, sampling, a limit of bytes and one of packets count what they pass over.
func TestStackDropsChosen(t *testing.T) {
	t.Parallel()
	const n = 30
	noSocket := []string{"NO_SOCKET"} // for filters that packets of other tests pass: see begin
	for i, test := range []struct {
		name    string
		options capture.Options
		want    capture.Account // Bytes: of one packet
	}{
		{"filter", capture.Options{Filter: "udp dst port 9 and ether[12:2] = 0x800"}, capture.Account{Seen: 2 * n, FilteredOut: n, Captured: n, Bytes: 142}},
		{"length", capture.Options{Filter: "greater 143", Reasons: noSocket}, capture.Account{Seen: 2 * n, FilteredOut: 2 * n}},
		{"reasons", capture.Options{Reasons: []string{"ip_rpfilter", "SKB_DROP_REASON_NO_SOCKET"}}, capture.Account{Seen: 2 * n, Captured: 2 * n, Bytes: 142}},
		{"other reasons", capture.Options{Reasons: []string{"TCP_CSUM"}}, capture.Account{Seen: 2 * n, FilteredOut: 2 * n}},
		{"sample", capture.Options{Sample: 10}, capture.Account{Seen: 2 * n, NotSampled: 54, Captured: 6, Bytes: 142}},
		{"flows", capture.Options{First: 1, SnapLen: 20}, capture.Account{Seen: 2 * n, NotSampled: 58, Captured: 2, Bytes: 20}},
		// The filter reads less of a packet than its headers.
		{"headers", capture.Options{HeadersOnly: true, Filter: "ip[9] = 17", Reasons: noSocket}, capture.Account{Seen: 2 * n, Captured: 2 * n, Bytes: 42}},
		{"headers and payload", capture.Options{HeadersOnly: true, Payload: 5, First: 1}, capture.Account{Seen: 2 * n, NotSampled: 58, Captured: 2, Bytes: 47}},
		{"count", capture.Options{Count: 7, SnapLen: 1}, capture.Account{Seen: 2 * n, NotSampled: 53, Captured: 7, Bytes: 1}},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachTransport(t, func(t *testing.T, transport capture.Transport) {
				d := newDropTest(t)
				options, want := test.options, test.want
				options.Transport = transport
				d.begin(options)
				d.send(testnet.TxToRx(), 9, n)
				d.send(testnet.TxToRx(), 10, n)
				packets, account := d.end(2*n, want.FilteredOut)
				for _, p := range packets {
					if len(p.data) != int(want.Bytes) || p.wireLen != 142 {
						t.Errorf("%d bytes of %d", len(p.data), p.wireLen)
					}
				}
				want.Bytes *= want.Captured
				if test.name == "sample" { // each CPU draws of its own packets
					account.NotSampled, account.Captured = account.NotSampled+account.Captured-6, 6
					account.Bytes = want.Bytes
				}
				same(t, want, account)
			})
		})
	}
}

// The filter finds what a packet carries that the stack throws away.
func TestStackDropsInner(t *testing.T) {
	t.Parallel()
	const n = 10
	d := newDropTest(t)
	d.begin(capture.Options{Filter: "net 192.0.2.0/24 and inner tcp port 443", Reasons: []string{"NO_SOCKET"}})
	path := testnet.TxToRx()
	for range n {
		for _, port := range []uint16{443, 80} {
			d.must(d.sender.Send(tunnels(path, path.TCP(testnet.Segment{SrcPort: 40000, DstPort: port}))["VXLAN"]))
		}
	}
	packets, account := d.end(2*n, n)
	for _, p := range packets {
		if port := binary.BigEndian.Uint16(p.data[50+36:]); port != 443 {
			t.Errorf("captured what carries a packet to port %d", port)
		}
	}
	same(t, capture.Account{Seen: 2 * n, FilteredOut: n, Captured: n, Bytes: uint64(n * len(packets[0].data))}, account)
}

// What an XDP program drops, or fails to redirect, is no packet that the stack throws away.
func TestStackDropsAfterXDP(t *testing.T) {
	t.Parallel()
	const n = 20
	d := newDropTest(t)
	// The stack answers with ICMP errors, and does not ask for the address of the other side: the
	// programs would count the reply, too.
	testnet.MustKnow(t, d.Rx, d.RxIndex, testnet.TxEndpoint)
	d.begin(capture.Options{})
	var stack [][]byte // sent while there was no XDP program
	for _, generic := range []bool{false, true} {
		for _, verdict := range []xdp.Verdict{xdp.Drop, xdp.Aborted, xdp.Redirect} {
			receiver, err := testnet.AttachReceiver(d.Rx, d.RxName, verdict, testnet.ReceiverOptions{Count: true, Generic: generic})
			d.must(err)
			defer receiver.Close()
			d.send(testnet.TxToRx(), 9, n)
			testnet.WaitFor(t, fmt.Sprintf("the program to lose the packets: %v, generic %v", verdict, generic), func() bool {
				total, err := receiver.Total()
				d.must(err)
				return total.Packets == n
			})
			d.must(receiver.Close())
			stack = append(stack, d.send(testnet.TxToRx(), 9, 1)...)
			d.await(uint64(len(stack)), 0)
		}
	}
	packets, _ := d.end(uint64(len(stack)), 0)
	for i, p := range packets {
		if i >= len(stack) || !bytes.Equal(p.data, stack[i]) {
			t.Errorf("packet %d: %s: %x, want %x", i, p.cause, packets, stack)
			break
		}
	}
}

// A packet in fragments is whole, and has the size of its segments. What came in several fragments
// of IP is put together. Where only headers are wanted, it ends after them and the payload.
func TestStackDropsFragments(t *testing.T) {
	t.Parallel()
	sharedTransports(t, func(t *testing.T, transport capture.Transport) {
		for _, o := range []capture.Options{{}, {HeadersOnly: true}, {HeadersOnly: true, Payload: 15_000}} {
			testStackDropsFragments(t, transport, o)
		}
	})
}

func testStackDropsFragments(t *testing.T, transport capture.Transport, o capture.Options) {
	t.Helper()
	d := newDropTest(t)
	o.Transport = transport
	d.begin(o)
	payload := make([]byte, 20_000)
	for i := range payload {
		payload[i] = byte(i * i >> 3)
	}
	d.sendUDP(payload, 1000)
	d.await(1, 0) // another CPU may handle the next one sooner
	d.sendUDP(payload, 0)
	packets, _ := d.end(2, 0)
	want := payload
	if o.HeadersOnly {
		want = payload[:o.Payload]
	}
	for i, gsoSize := range []uint32{1000, 0} {
		if i >= len(packets) {
			break
		}
		p := packets[i]
		if p.gsoSize != gsoSize || int(p.wireLen) != 42+len(payload) || len(p.data) != 42+len(want) || !bytes.HasSuffix(p.data, want) {
			t.Errorf("%s: %d bytes of %d, segments of %d", p.cause, len(p.data), p.wireLen, p.gsoSize)
		}
	}
}

// sendUDP sends a payload by a socket, in segments of this size; 0 = in fragments of IP.
func (d *dropTest) sendUDP(payload []byte, segment int) {
	d.Helper()
	d.must(d.Tx.Do(func() error {
		conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: testnet.RxEndpoint.IPv4, Port: 9})
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment)
		})
		if err != nil {
			return err
		}
		_, err = conn.Write(payload)
		return err
	}))
}

// A packet that has no Ethernet header yet gets one, with zero addresses and its protocol.
func TestStackDropsWithoutHeader(t *testing.T) {
	t.Parallel()
	sharedTransports(t, func(t *testing.T, transport capture.Transport) {
		const n = 10
		d := newDropTest(t)
		d.set("ipv4/neigh/rx0/unres_qlen_bytes", "1") // of a neighbour that does not answer yet
		d.begin(capture.Options{Transport: transport, Filter: "ip dst 192.0.2.77 and udp port 9", Reasons: []string{"NEIGH_QUEUEFULL"}})
		d.onRx(func() error {
			conn, err := net.Dial("udp4", "192.0.2.77:9")
			if err != nil {
				return err
			}
			defer conn.Close()
			for i := range n {
				if _, err := conn.Write([]byte(fmt.Sprint("packet ", i))); err != nil {
					return err
				}
			}
			return nil
		})
		packets, _ := d.end(n-1, 0)
		for i, p := range packets {
			header := append(make([]byte, 12), 8, 0, 0x45)
			if !bytes.HasPrefix(p.data, header) || !bytes.HasSuffix(p.data, []byte(fmt.Sprint("packet ", i))) || len(p.data) != 14+20+8+8 {
				t.Errorf("%s: %x", p.cause, p.data)
			}
		}
		if len(packets) != n-1 {
			t.Errorf("%d packets, want %d", len(packets), n-1)
		}
	})
}

// A VLAN tag that is kept beside a packet is put back, also for the filter, and where the packet is
// cut after its headers.
func TestStackDropsTagged(t *testing.T) {
	t.Parallel()
	sharedTransports(t, func(t *testing.T, transport capture.Transport) {
		d := newDropTest(t)
		shot, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "shoots", Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2 /* TC_ACT_SHOT */), asm.Return()},
		})
		d.must(err)
		defer shot.Close()
		d.onRx(func() error {
			clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: d.RxIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
			return cmp.Or(netlink.QdiscAdd(clsact), netlink.FilterAdd(&netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: d.RxIndex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
				Fd:          shot.FD(), Name: "shoots", DirectAction: true,
			}))
		})
		tagged := testnet.VLAN(d.frame(testnet.TxToRx(), 9), 7)
		for _, test := range []struct {
			options capture.Options
			want    []byte
		}{
			{capture.Options{}, tagged},
			{capture.Options{HeadersOnly: true, Payload: 7}, tagged[:14+4+20+8+7]},
		} {
			test.options.Transport, test.options.Filter = transport, "vlan 7 and udp port 9 and greater 146"
			d.begin(test.options)
			d.must(d.sender.Send(tagged))
			packets, _ := d.end(1, 0)
			if len(packets) != 1 || !bytes.Equal(packets[0].data, test.want) || int(packets[0].wireLen) != len(tagged) {
				t.Errorf("%x, want %x", packets, test.want)
			}
		}
	})
}

// Reasons that the kernel does not have, and options for packets at an interface, are refused.
func TestStackDropsRefused(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		options capture.Options
		want    string
	}{
		{capture.Options{StackDrops: true, Reasons: []string{"NO_SOKET"}}, `reason "NO_SOKET": this kernel has none of that name: did you mean NO_SOCKET?`},
		{capture.Options{StackDrops: true, Reasons: []string{""}}, `reason "": this kernel has none of that name`},
		{capture.Options{StackDrops: true, Reasons: []string{"quux-norf-thud"}}, `reason "quux-norf-thud": this kernel has none of that name`},
		{capture.Options{Reasons: []string{"NO_SOCKET"}}, "Reasons choose among the packets that the stack throws away"},
		{capture.Options{StackDrops: true, Direction: capture.Out}, "pass no XDP program"},
		{capture.Options{StackDrops: true, Sink: true}, "pass no XDP program"},
	} {
		test.options.Interfaces = []string{pair.RxName}
		err := pair.Rx.Do(func() error {
			s, err := capture.Open(test.options)
			if err == nil {
				s.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
