package capture_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// ordinaryTime is how long TestOrdinaryTraffic runs. XDPCAP_SECONDS=3600 makes it longer.
func ordinaryTime() time.Duration {
	n, err := strconv.Atoi(os.Getenv("XDPCAP_SECONDS"))
	if err != nil {
		n = 5
	}
	return time.Duration(n) * time.Second
}

// Ordinary traffic gives no false alarm: with TCP that the kernel joins and splits, datagrams in
// fragments, multicast and broadcast, no packet is said to have passed by a hook, on whatever
// devices there are above the interface.
func TestOrdinaryTraffic(t *testing.T) {
	t.Parallel()
	plain, joined := testnet.Upper{Name: "plain"}, testnet.Upper{Name: "joined"}
	for _, u := range append(testnet.Uppers, plain, joined) {
		t.Run(u.Name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true, GRO: u.Name == joined.Name})
			above, from := pair.RxName, pair.TxName
			switch u.Name {
			case plain.Name:
			case joined.Name: // by GRO of Rx
				testnet.Must(t, pair.Tx.Do(func() error { return testnet.SplitInStack(pair.TxName) }))
			default:
				above, from = u.MustAdd(t, pair), sendingSide(t, pair, u.VLAN)
			}
			var captures []*systest.Process
			for _, args := range []string{"-i any", "-i any -Q inout", "-i " + pair.RxName + " --at tc -Q inout", "-i " + above + " --at auto"} {
				captures = append(captures, systest.Listening(t, pair.Rx, nil, append(strings.Fields(args), "-w", "/dev/null", "--json")...))
			}
			sendOrdinary(t, pair, from, ordinaryTime())
			for _, p := range captures {
				s := systest.Account(t, p.Interrupt())
				if s.PassedBy != 0 || s.Unexplained != 0 || s.Seen < 1000 || strings.Contains(p.Stderr(), "did not pass") {
					t.Errorf("%+v: %s", s.AccountKeys, p.Stderr())
				}
				t.Logf("%d packets seen", s.Seen)
			}
		})
	}
}

// sendingSide gives Tx what a VLAN above Rx needs, and returns the interface that has its address.
func sendingSide(t *testing.T, pair *testnet.Pair, vlan int) string {
	t.Helper()
	if vlan == 0 {
		return pair.TxName
	}
	testnet.Must(t, pair.Tx.Do(func() error {
		l := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan", ParentIndex: pair.TxIndex}, VlanId: vlan}
		address, err := netlink.ParseAddr(testnet.TxEndpoint.IPv4.String() + "/24")
		if err != nil {
			return err
		}
		tx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: pair.TxIndex}}
		return errors.Join(netlink.LinkAdd(l), netlink.AddrDel(tx, address), netlink.AddrAdd(l, address), netlink.LinkSetUp(l))
	}))
	return "vlan"
}

// sendOrdinary sends from Tx to Rx and back for some time, at a moderate rate.
func sendOrdinary(t *testing.T, pair *testnet.Pair, from string, d time.Duration) {
	t.Helper()
	const port, datagrams = 5001, 5002
	var server net.Listener
	var echo net.PacketConn
	if err := pair.Rx.Do(func() (err error) {
		if server, err = net.Listen("tcp4", ":"+strconv.Itoa(port)); err != nil {
			return err
		}
		echo, err = net.ListenPacket("udp4", ":"+strconv.Itoa(datagrams))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer server.Close()
	defer echo.Close()
	all.Go(func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); _, _ = io.Copy(c, c) })
		}
	})
	all.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	})
	end := time.Now().Add(d)
	to := testnet.RxEndpoint.IPv4.String() + ":"
	var sending sync.WaitGroup
	for range 2 {
		sending.Go(func() {
			for time.Now().Before(end) {
				var c net.Conn
				if err := pair.Tx.Do(func() (err error) {
					c, err = net.Dial("tcp4", to+strconv.Itoa(port))
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				talk(c, min(time.Until(end), time.Duration(rand.N(int64(4*time.Second)))))
				c.Close()
			}
		})
	}
	sending.Go(func() {
		if err := pair.Tx.Do(func() error { return sendDatagrams(from, to+strconv.Itoa(datagrams), end) }); err != nil {
			t.Error(err)
		}
	})
	sending.Wait()
}

// talk sends much at once, some, or single bytes, and reads the answers.
func talk(c net.Conn, d time.Duration) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	size := []int{300_000, 9000, 1}[rand.N(3)]
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := c.Write(make([]byte, size)); err != nil {
			return
		}
	}
}

// sendDatagrams sends to one address, to groups and to all, from an interface.
func sendDatagrams(ifname, to string, end time.Time) error {
	var targets []net.Addr
	for _, address := range []string{to, to, "224.0.0.251:5353", "239.255.255.250:1900", "255.255.255.255:67"} {
		a, err := net.ResolveUDPAddr("udp4", address)
		if err != nil {
			return err
		}
		targets = append(targets, a)
	}
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var option error
	if err := raw.Control(func(fd uintptr) { option = unix.BindToDevice(int(fd), ifname) }); err != nil || option != nil {
		return errors.Join(err, option)
	}
	for time.Now().Before(end) {
		for _, a := range targets {
			for _, size := range []int{10, 1400, 5000} {
				if _, err := c.WriteTo(make([]byte, size), a); err != nil {
					return err
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
