package capture_test

import (
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// At egress the packets that do not come through tc have passed by, beside others: here those of a
// packet socket that bypasses it, as AF_XDP does. What the kernel splits after tc has not.
func TestPastEgress(t *testing.T) {
	t.Parallel()
	bypass := func(t *testing.T, p *testnet.Pair) {
		capture.Must(t, p.Tx.Do(func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			capture.Must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
			for i := range 30 {
				capture.Must(t, unix.Sendto(fd, testnet.UDPFrame(100, uint64(i)), 0, &unix.SockaddrLinklayer{Ifindex: p.TxIndex}))
			}
			return nil
		}))
	}
	for _, test := range []struct {
		name   string
		pair   testnet.PairOptions
		send   func(t *testing.T, p *testnet.Pair)
		seen   uint64 // at least
		passed uint64
	}{
		{"beside others", testnet.PairOptions{}, func(t *testing.T, p *testnet.Pair) {
			for i := range 5 {
				testnet.Send(t, p, testnet.UDPFrame(100, uint64(i)))
			}
			bypass(t, p)
		}, 5, 30},
		{"TCP that is split", testnet.PairOptions{Addresses: true}, sendTCP, 20, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, test.pair)
			testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{}) // takes the sender's TSO
			var s *capture.Session
			capture.Must(t, pair.Tx.Do(func() (err error) {
				s, err = capture.Open(capture.Options{Interfaces: []string{pair.TxName}, Direction: capture.Out})
				return err
			}))
			defer s.Close()
			test.send(t, pair)
			s.Stop()
			for _, err := range s.Packets(t.Context()) {
				capture.Must(t, err)
			}
			accounts, err := s.Accounts()
			capture.Must(t, err)
			if a := accounts.Total(); a.Seen < test.seen || a.PassedBy != test.passed {
				t.Errorf("%s, and %d passed by, want %d", a.Equation(), a.PassedBy, test.passed)
			}
		})
	}
}

// sendTCP sends so much by TCP that the kernel joins packets.
func sendTCP(t *testing.T, p *testnet.Pair) {
	var listener net.Listener
	capture.Must(t, p.Rx.Do(func() (err error) {
		listener, err = net.Listen("tcp4", net.JoinHostPort(testnet.RxEndpoint.IPv4.String(), "0"))
		return err
	}))
	defer listener.Close()
	var to net.Conn
	capture.Must(t, p.Tx.Do(func() (err error) {
		to, err = net.Dial("tcp4", listener.Addr().String())
		return err
	}))
	from, err := listener.Accept()
	capture.Must(t, err)
	defer from.Close()
	go func() {
		to.Write(make([]byte, 4<<20))
		to.Close()
	}()
	if n, err := io.Copy(io.Discard, from); n != 4<<20 || err != nil {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
}
