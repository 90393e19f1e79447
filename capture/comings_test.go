package capture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A following is a session with patterns, that writes a file into memory.
type following struct {
	*capture.Session
	t        *testing.T
	ns       *testnet.Namespace
	out      bytes.Buffer
	accounts []capture.Accounts
	ended    chan error
	cancel   context.CancelFunc

	mu      sync.Mutex
	notices []string
}

func follow(t *testing.T, ns *testnet.Namespace, o capture.Options) *following {
	t.Helper()
	f := &following{t: t, ns: ns, ended: make(chan error, 1)}
	o.Notice = func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notices = append(f.notices, err.Error())
	}
	f.Session = capture.OpenAt(t, ns, o)
	ctx, cancel := context.WithCancel(t.Context())
	f.cancel = cancel
	go func() {
		var err error
		f.accounts, err = f.Run(ctx, file.NewWriter(&f.out, file.Options{}))
		f.ended <- err
	}()
	return f
}

// end ends the session, and returns the account of its output.
func (f *following) end() capture.Accounts {
	f.t.Helper()
	f.cancel()
	must(f.t, <-f.ended)
	return f.accounts[0]
}

// said waits for a notice.
func (f *following) said(text string) {
	f.t.Helper()
	testnet.WaitFor(f.t, "the notice "+text, func() bool {
		return strings.Contains(f.text(), text)
	})
}

// text has the notices so far, each in a line.
func (f *following) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.notices, "\n")
}

// come makes a pair whose receiving side is in the namespace, and waits until it is captured.
func (f *following) come(name string) *testnet.Pair {
	f.t.Helper()
	before := len(f.Sources())
	pair := testnet.MustPair(f.t, testnet.PairOptions{Rx: f.ns, RxName: name})
	testnet.WaitFor(f.t, name+" to be captured", func() bool { return len(f.Sources()) > before })
	return pair
}

// send sends packets, and waits until the programs have seen that many more.
func (f *following) send(pair *testnet.Pair, n int) {
	f.t.Helper()
	before := f.seen()
	send(f.t, testnet.MustSender(f.t, pair), n)
	testnet.WaitFor(f.t, "the packets", func() bool { return f.seen() >= before+uint64(n) })
}

func (f *following) seen() uint64 {
	f.t.Helper()
	return total(f.t, f.Session).Seen
}

func (f *following) delete(name string) {
	f.t.Helper()
	must(f.t, f.ns.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}))
}

func newNamespace(t *testing.T) *testnet.Namespace {
	t.Helper()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// Interfaces that match are captured when they come, until they go, each with an exact account. A
// name that comes again is another source.
func TestPatterns(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport capture.Transport) {
		ns := newNamespace(t)
		testnet.MustPair(t, testnet.PairOptions{Rx: ns, RxName: "other0"})
		f := follow(t, ns, capture.Options{Patterns: []string{"veth*", "any?"}, Except: []string{"veth9"}, Transport: transport})
		f.said("no interface among veth*, any? except veth9 is up: waiting for one")
		first := f.come("veth1")
		f.send(first, 10)
		testnet.MustPair(t, testnet.PairOptions{Rx: ns, RxName: "veth9"})
		second := f.come("any1")
		f.send(second, 20)
		f.delete("veth1")
		testnet.WaitFor(t, "the end of veth1", func() bool { return len(f.Gone()) == 1 })
		f.said("interface veth1 was deleted")
		again := f.come("veth1")
		f.send(again, 5)
		f.send(second, 1)
		accounts := f.end()
		var got []string
		for i, src := range f.Sources() {
			a := accounts[i]
			got = append(got, fmt.Sprintf("%s %d %d: %d seen, %d captured, %d bytes, %d unexplained", src.Name, src.Arrival, src.Index, a.Seen, a.Captured, a.Bytes, a.Unexplained))
		}
		want := []string{
			fmt.Sprintf("veth1 1 %d: 10 seen, 10 captured, 640 bytes, 0 unexplained", first.RxIndex),
			fmt.Sprintf("any1 2 %d: 21 seen, 21 captured, 1344 bytes, 0 unexplained", second.RxIndex),
			fmt.Sprintf("veth1 3 %d: 5 seen, 5 captured, 320 bytes, 0 unexplained", again.RxIndex),
		}
		same(t, want, got)
		same(t, []int{0}, f.Gone(), "gone")
	})
}

// Packets received and sent are sources of their own, and an interface that is named must be there.
func TestPatternsBothWays(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	pair := testnet.MustPair(t, testnet.PairOptions{Rx: ns, RxName: "named0"})
	err := ns.Do(func() error {
		_, err := capture.Open(capture.Options{Interfaces: []string{"absent0"}, Patterns: []string{"veth*"}})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `interface "absent0" does not exist`) {
		t.Errorf("error %v", err)
	}
	f := follow(t, ns, capture.Options{Interfaces: []string{"named0"}, Patterns: []string{"veth*"}, Direction: capture.InOut})
	f.send(pair, 3)
	later := f.come("veth1")
	f.send(later, 4)
	f.send(&testnet.Pair{Tx: ns, TxName: "veth1"}, 7)
	accounts := f.end()
	var got []string
	for i, src := range f.Sources() {
		got = append(got, fmt.Sprintf("%s %d", src.Label(), accounts[i].Captured))
	}
	same(t, []string{"named0 3", "named0@egress 0", "veth1 4", "veth1@egress 7"}, got)
}

// What has no meaning where interfaces come and go is refused.
func TestPatternsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []capture.Options{
		{Except: []string{"lo"}, Interfaces: []string{"lo"}},
		{Patterns: []string{"[a"}},
		{Patterns: []string{"*"}, Sink: true},
		{Patterns: []string{"*"}, Promiscuous: capture.PromiscuousOn},
		{Patterns: []string{"eth*"}, StackDrops: true},
		{Patterns: []string{"*"}, StackDrops: true, Interfaces: []string{"lo"}},
		{Patterns: []string{"*"}, StackDrops: true, ReasonMap: "reasons"},
		{Patterns: []string{"*"}, Stamp: capture.AdapterStamp},
		{Patterns: []string{"*"}, Filter: "tcp prot 80"},
	} {
		if s, err := capture.Open(o); err == nil {
			s.Close()
			t.Errorf("%+v is accepted", o)
		} else {
			t.Log(err)
		}
	}
}

// The first packets of a flow are kept at each interface that comes, also where its program has the
// place of one that has gone.
func TestPatternsFirst(t *testing.T) {
	t.Parallel()
	f := follow(t, newNamespace(t), capture.Options{Patterns: []string{"veth*"}, First: 2})
	for i := range 3 {
		pair := f.come("veth1")
		f.send(pair, 5) // of one flow
		f.delete("veth1")
		testnet.WaitFor(t, "the end of veth1", func() bool { return len(f.Gone()) == i+1 })
	}
	for i, a := range f.end() {
		if a.Seen != 5 || a.Captured != 2 || a.NotSampled != 3 {
			t.Errorf("the time %d: %+v", i+1, a)
		}
	}
}

// Nothing is said of an interface that goes before a program is attached to it. Of many that come
// and go, some do.
func TestPatternsTooLate(t *testing.T) {
	t.Parallel()
	f := follow(t, newNamespace(t), capture.Options{Patterns: []string{"veth*"}})
	f.ComeTooLate("veth7")
	f.end()
	same(t, "no interface among veth* is up: waiting for one", f.text())
}

// An interface that is below somebody else's program is not captured, and the others above it stay
// captured: to detach from them would not help.
func TestPatternsBelowOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	pair := testnet.MustPair(t, testnet.PairOptions{Rx: ns, RxName: "below0"})
	err := ns.Do(func() error {
		for _, name := range []string{"own0", "others0"} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.ParentIndex = name, pair.RxIndex
			above := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
			if err := errors.Join(netlink.LinkAdd(above), netlink.LinkSetUp(above)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no macvlan")
	}
	must(t, err)
	capture.OpenAt(t, ns, capture.Options{Interfaces: []string{"others0"}})
	f := follow(t, ns, capture.Options{Patterns: []string{"own*", "below*"}})
	f.said("below0 is not captured: below0 is below others0")
	testnet.WaitFor(t, "own0 to be captured", func() bool { return len(f.Sources()) == 1 })
	err = ns.Do(func() error { // it is another try: its state has changed
		l, err := netlink.LinkByName("below0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "below1"), netlink.LinkSetUp(l))
	})
	must(t, err)
	f.said("below1 is not captured: below1 is below others0")
	f.end()
	if text := f.text(); strings.Contains(text, "captured anew") || len(f.Sources()) != 1 {
		t.Errorf("%d sources: %s", len(f.Sources()), text)
	}
}

// A notice names interfaces that match and have no Ethernet header, such as a tun, once each, and
// neither those that are down nor those that do not match.
func TestPatternsWithoutEthernet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	add := func(name string, up bool) {
		t.Helper()
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		must(t, ns.Do(func() error {
			tun := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TUN}
			if err := netlink.LinkAdd(tun); err != nil || !up {
				return err
			}
			return netlink.LinkSetUp(tun)
		}))
	}
	for name, up := range map[string]bool{"tun0": true, "tun1": true, "tun2": false, "other0": true} {
		add(name, up)
	}
	testnet.MustPair(t, testnet.PairOptions{Rx: ns, RxName: "veth0"})
	f := follow(t, ns, capture.Options{Patterns: []string{"tun*", "veth*"}})
	add("tun3", true)
	f.said("tun3")
	f.come("veth1")
	f.end()
	const why = ": packets without an Ethernet header are not understood"
	first, later, _ := strings.Cut(f.text(), "\n")
	if first != "not captured: tun0, tun1"+why && first != "not captured: tun1, tun0"+why {
		t.Error(first)
	}
	same(t, "not captured: tun3"+why+"\nveth1 has come and is captured, too: XDP native", later)
}

// addBridge makes a bridge in the namespace.
func addBridge(t *testing.T, ns *testnet.Namespace) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	must(t, ns.Do(func() error { return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge)) }))
	return bridge
}

// addPort makes a veth pair whose one end is a port of the bridge, and sets both ends up.
func addPort(bridge netlink.Link, name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex, attrs.Flags = name, bridge.Attrs().Index, net.FlagUp
	port := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "p"}
	if err := netlink.LinkAdd(port); err != nil {
		return err
	}
	peer, err := netlink.LinkByName(name + "p")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(peer)
}

// A bridge and its ports can be captured together, in whatever order they are named or were made,
// and nothing is attached twice for that.
func TestBridgeAndPorts(t *testing.T) {
	t.Parallel()
	for _, o := range []capture.Options{
		{Interfaces: []string{"br0", "port0", "port1"}},
		{Interfaces: []string{"port0", "br0", "port1"}},
		{Interfaces: []string{"br0"}, Patterns: []string{"port?"}},
		{Patterns: []string{"*"}, Except: []string{"lo", "*p"}},
	} {
		t.Run(fmt.Sprint(o.Interfaces, o.Patterns), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			bridge := addBridge(t, ns)
			must(t, ns.Do(func() error { return errors.Join(addPort(bridge, "port0"), addPort(bridge, "port1")) }))
			f := follow(t, ns, o)
			var got []string
			for _, src := range f.Sources() {
				got = append(got, src.Name)
			}
			f.end()
			want := o.Interfaces
			if o.Patterns != nil {
				want = []string{"port0", "port1", "br0"}
			}
			same(t, want, got)
			same(t, "", f.text(), "notices")
		})
	}
}

// Where containers start, interfaces come faster than the kernel can list them: a list that changes
// meanwhile lacks some. Each of them is captured at once, although they are below a bridge that is
// captured, too, and nobody says that somebody else were in the way.
func TestPatternsStorm(t *testing.T) {
	t.Parallel()
	const makers, ports = 4, 15
	ns := newNamespace(t)
	bridge := addBridge(t, ns)
	f := follow(t, ns, capture.Options{Patterns: []string{"*"}, Except: []string{"lo", "*p"}})
	var making sync.WaitGroup
	for maker := range makers {
		making.Go(func() {
			err := ns.Do(func() error {
				for i := range ports {
					if err := addPort(bridge, fmt.Sprintf("port%d.%d", maker, i)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	testnet.WaitFor(t, "all ports to be captured", func() bool {
		there := make(map[string]bool)
		for _, src := range f.Sources() {
			there[src.Name] = true
		}
		return len(there) == makers*ports+1
	})
	f.end()
	if text := f.text(); strings.Contains(text, "is not captured") {
		t.Errorf("notices:\n%s", text)
	}
}

// If a driver refuses a program, the interface above it is still captured. When the session tries
// below again within an hour, that does not interrupt the capture above.
func TestPatternsBelowRefused(t *testing.T) {
	t.Parallel()
	// Names and arrivals: each try counts as one.
	want := []string{"br0 2", "br1 4", "br2 6", "br0 9"}
	for i, test := range []struct{ first, second string }{{"br0", "low0"}, {"low0", "br0"}} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.first+" first", func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			must(t, ns.Do(func() error { return addRefusedPort(test.first, test.second) }))
			f := follow(t, ns, capture.Options{Patterns: []string{"br*", "low*"}})
			f.said("low0 is not captured: attach an XDP program to low0 in native mode: driver veth")
			for _, next := range []string{"br1", "br2"} {
				f.AgeRefusals(time.Minute)
				f.come(next) // low0 is tried before it, because its index is lower
			}
			f.AgeRefusals(time.Hour) // by then the driver may take it
			testnet.WaitFor(t, "br0 to come again", func() bool { return len(f.Sources()) == len(want) })
			f.end()
			var got []string
			for _, src := range f.Sources() {
				got = append(got, fmt.Sprint(src.Name, " ", src.Arrival))
			}
			same(t, want, got, "sources")
			text := f.text()
			if strings.Count(text, "captured anew") != 1 || strings.Count(text, "low0 is not captured") != 1 {
				t.Errorf("notices:\n%s", text)
			}
		})
	}
}

// addRefusedPort makes a bridge br0 and its port low0, one after the other. The port's driver
// refuses programs, because it has fewer queues than its peer.
func addRefusedPort(first, second string) error {
	for _, name := range []string{first, second} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = name, 1, 1
		var l netlink.Link = &netlink.Bridge{LinkAttrs: attrs}
		if name == "low0" {
			l = &netlink.Veth{LinkAttrs: attrs, PeerName: "peer0", PeerNumTxQueues: 4, PeerNumRxQueues: 1}
		}
		if err := errors.Join(netlink.LinkAdd(l), netlink.LinkSetUp(l)); err != nil {
			return err
		}
	}
	port, err := netlink.LinkByName("low0")
	if err != nil {
		return err
	}
	bridge, err := netlink.LinkByName("br0")
	if err != nil {
		return err
	}
	return netlink.LinkSetMaster(port, bridge)
}
