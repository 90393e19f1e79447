package testnet

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func total(tb testing.TB, r *Receiver) Counts {
	tb.Helper()
	c, err := r.Total()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func interfaceNames(tb testing.TB) string {
	tb.Helper()
	all, err := net.Interfaces()
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return strings.Join(names, " ")
}

// here returns the identity of the calling thread's network namespace.
func here(tb testing.TB) string {
	tb.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		tb.Error(err)
	}
	return name
}

func TestNamespaceIsolates(t *testing.T) {
	t.Parallel()
	Require(t, "ip")
	host := here(t) // before anything could have left the goroutine elsewhere
	p := MustPair(t, PairOptions{TxName: "left", RxName: "right"})
	for _, c := range []struct {
		ns   *Namespace
		want string
	}{{p.Tx, "lo left"}, {p.Rx, "lo right"}} {
		err := c.ns.Do(func() error {
			if got := interfaceNames(t); got != c.want {
				t.Errorf("interfaces in the namespace: %q, want %q", got, c.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		var out strings.Builder
		cmd := exec.Command("ip", "-o", "link")
		cmd.Stdout = &out
		if err := errors.Join(c.ns.Start(cmd), cmd.Wait()); err != nil || !strings.Contains(out.String(), strings.Fields(c.want)[1]) {
			t.Errorf("ip link in the namespace of %q: %v, %s", c.want, err, out.String())
		}
	}
	err := p.Tx.Do(func() error {
		return p.Rx.Do(func() error { return os.ErrInvalid })
	})
	if !errors.Is(err, os.ErrInvalid) {
		t.Errorf("Do gave %v, want the function's error", err)
	}
	if got := here(t); got != host {
		t.Errorf("after Do the goroutine is in %s, want %s", got, host)
	}
}

func TestNamespaceDoRestoresAfterGoexit(t *testing.T) {
	t.Parallel()
	RequireRoot(t)
	host := here(t)
	ns, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	after := make(chan string)
	go func() {
		defer func() { after <- here(t) }()
		ns.Do(func() error { runtime.Goexit(); return nil })
	}()
	if got := <-after; got != host {
		t.Errorf("after Goexit the goroutine is in %s, want %s", got, host)
	}
}

func TestPairLeavesNothing(t *testing.T) {
	t.Parallel()
	RequireRoot(t)
	ns, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for range 2 { // the names are free again
		Within(t, func(tb TB) { MustPair(tb, PairOptions{Tx: ns, Rx: ns}) })
	}
	err = Try(t.Context(), func(tb TB) { MustPair(tb, PairOptions{Tx: ns, Rx: ns, RxName: "much-too-long-for-a-name"}) })
	if err == nil {
		t.Error("a pair with an impossible name was made")
	}
	ns.Do(func() error {
		if got := interfaceNames(t); got != "lo" {
			t.Errorf("left behind: %q", got)
		}
		return nil
	})
}

// Ends with the same index can send only after up to a second, before Linux 6.8.
func TestPairIndexes(t *testing.T) {
	t.Parallel()
	first, second := MustPair(t, PairOptions{}), MustPair(t, PairOptions{})
	for _, p := range []*Pair{first, second} {
		if p.TxIndex == p.RxIndex {
			t.Errorf("both ends have the index %d", p.TxIndex)
		}
	}
	if first.RxIndex != second.RxIndex { // which tests of interfaces with the same index need
		t.Errorf("the receiving ends of two pairs have the indexes %d and %d", first.RxIndex, second.RxIndex)
	}
}

func TestPairIsSilent(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{})
	r := MustReceiver(t, p, xdp.Pass, ReceiverOptions{Count: true})
	err := p.Tx.Do(func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if !strings.HasPrefix(a.String(), "127.") {
				t.Errorf("an interface has the address %v", a)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // long enough for what a veth sends when it comes up
	if got := total(t, r); got.Packets != 0 {
		t.Errorf("%d packets on a pair where nobody sends", got.Packets)
	}
}

func TestPairAddresses(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{Addresses: true, IPv6: true})
	for _, ip := range []net.IP{RxEndpoint.IPv4, RxEndpoint.IPv6} {
		var rx, tx *net.UDPConn
		err := p.Rx.Do(func() (err error) {
			rx, err = net.ListenUDP("udp", &net.UDPAddr{IP: ip})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		err = p.Tx.Do(func() (err error) {
			tx, err = net.DialUDP("udp", nil, rx.LocalAddr().(*net.UDPAddr))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Close()
		if _, err := tx.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		rx.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := rx.Read(buf); string(buf[:n]) != "hello" {
			t.Errorf("%v received %q, %v", ip, buf[:n], err)
		}
	}
}

// Both ends of a new pair answer neighbour solicitations at once. If one did so a moment later, a
// packet would be delayed by a second or lost.
func TestPairAddressesAreReady(t *testing.T) {
	t.Parallel()
	for range 10 { // without the wait, about every third pair has an end that is late
		p := MustPair(t, PairOptions{IPv6: true})
		for _, end := range []struct {
			ns *Namespace
			ip net.IP
		}{{p.Tx, TxEndpoint.IPv6}, {p.Rx, RxEndpoint.IPv6}} {
			err := end.ns.Do(func() error {
				ok, err := hasLocalRoute(end.ip)
				if err == nil && !ok {
					t.Errorf("%v has no local route yet", end.ip)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestSender(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{MTU: 9000})
	r := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Sequence: true})
	s, err := NewSender(p.Tx, p.TxName)
	if err != nil {
		t.Fatal(err)
	}
	var bytes uint64
	sizes := []int{MinFrame, 64, 1514, 4096, MaxFrame}
	err = machine.Quiet(0, func() error { // on one CPU: the receiver counts the gaps of each
		for i, size := range sizes {
			if err := s.Send(UDPFrame(size, uint64(i))); err != nil {
				return err
			}
			bytes += uint64(size)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Packets: uint64(len(sizes)), Bytes: bytes}
	WaitArrived(t, p, PairStats{}, want.Packets)
	if diff := cmp.Diff(want, total(t, r)); diff != "" {
		t.Errorf("receiver: %s", diff)
	}
	if err := s.Send(make([]byte, MaxFrame+100)); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a frame above the MTU gave %v, want EMSGSIZE", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Send(UDPFrame(MinFrame, 0)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Send after Close gave %v, want os.ErrClosed", err)
	}
}
