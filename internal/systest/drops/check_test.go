package drops_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// drops counts connections that a full listener refuses, with the listener's process, and never as
// losses of an interface. With --check the kernel's own counters agree. Both work in the sandbox.
func TestDropsCheck(t *testing.T) {
	t.Parallel()
	const refused, closed = 36, 5
	for _, test := range []struct {
		name string
		args []string
		all  bool
	}{
		{"interface", []string{"-i", "rx0"}, false},
		{"all", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
			testnet.MustKnow(t, pair.Tx, pair.TxIndex, testnet.RxEndpoint)
			away := testnet.Endpoint{MAC: testnet.TxEndpoint.MAC, IPv4: net.IP{192, 0, 2, 77}} // answers nothing
			for _, end := range []testnet.Endpoint{testnet.TxEndpoint, away} {
				testnet.MustKnow(t, pair.Rx, pair.RxIndex, end)
			}
			port := fullListener(t, pair)
			args := append([]string{"drops", "--check", "--json", "--interval", "100ms"}, test.args...)
			p, output := systest.Counting(t, pair, args...)
			ports := make([]uint16, closed)
			for i := range ports {
				ports[i] = uint16(9 + i)
			}
			systest.SendClosed(t, pair, ports...)
			var frames [][]byte
			for i := range uint16(refused) {
				frames = append(frames, testnet.Path{Src: away, Dst: testnet.RxEndpoint}.TCP(testnet.Segment{SrcPort: 2000 + i, DstPort: port, Seq: 1, SYN: true}))
			}
			testnet.Send(t, pair, frames...)
			testnet.WaitHandled(t)
			p.Interrupt()
			r := systest.LastObject[systest.DropsReport](t, output())

			losses := r.Listeners
			if test.all {
				for _, l := range r.Losses {
					losses = append(losses, l.LossRate)
				}
			}
			text := ""
			for _, l := range losses {
				if strings.Contains(l.Where, ", backlog ") {
					text += fmt.Sprintf("%s %s %s %d ", l.Stage, l.Reason, l.Where, l.Packets)
				}
			}
			want := fmt.Sprintf("[%d] :%d, backlog 0 %d ", os.Getpid(), port, refused)
			if !strings.HasPrefix(text, "socket TCP_LISTEN_OVERFLOW ") || !strings.HasSuffix(text, want) {
				t.Errorf("%q, want %q of %+v", text, want, r)
			}
			if !test.all {
				for _, l := range r.Losses {
					if strings.HasPrefix(l.Reason, "TCP_LISTEN") {
						t.Errorf("a loss of the interface: %+v", l)
					}
				}
			}
			if len(r.Unexplained)+len(r.Unconfirmed) > 0 {
				t.Errorf("unexplained %+v, unconfirmed %+v", r.Unexplained, r.Unconfirmed)
			}
		})
	}
}

// fullListener listens on the receiving side. Its accept queue is full.
func fullListener(t *testing.T, pair *testnet.Pair) (port uint16) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		testnet.Must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		testnet.Must(t, unix.Bind(fd, &unix.SockaddrInet4{}))
		testnet.Must(t, unix.Listen(fd, 0))
		address, err := unix.Getsockname(fd)
		testnet.Must(t, err)
		port = uint16(address.(*unix.SockaddrInet4).Port)
		return nil
	}))
	testnet.Must(t, pair.Tx.Do(func() error {
		conn, err := net.Dial("tcp4", fmt.Sprintf("%v:%d", testnet.RxEndpoint.IPv4, port))
		testnet.Must(t, err)
		t.Cleanup(func() { conn.Close() })
		return nil
	}))
	return port
}

// The table ends with what differs from the kernel's counters, or that they agree.
func TestDropsCheckTable(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.MustKnow(t, pair.Rx, pair.RxIndex, testnet.TxEndpoint)
	p, output := systest.Counting(t, pair, "drops", "-i", "rx0", "--check", "-q")
	systest.SendClosed(t, pair, 9)
	p.Interrupt()
	if text := output(); !strings.HasSuffix(text, "\nthe kernel's counters agree\n") {
		t.Error(text)
	}
	p, output = systest.Counting(t, pair, "drops", "-i", "rx0", "-q")
	p.Interrupt()
	if text := output(); strings.Contains(text, "counters agree") {
		t.Error(text)
	}
}
