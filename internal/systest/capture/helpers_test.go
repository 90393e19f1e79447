package capture_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// listenIP counts the IPv4 packets that reach the stack of the receiving side, as tcpdump would see
// them. The returned function ends that.
func listenIP(t *testing.T, pair *testnet.Pair) func() int64 {
	t.Helper()
	var fd int
	err := pair.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(systest.Htons(unix.ETH_P_IP)))
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() (n int64) {
		testnet.WaitHandled(t) // the driver has counted packets before the stack gets them
		defer unix.Close(fd)
		buf := make([]byte, 2048)
		for {
			if _, _, err := unix.Recvfrom(fd, buf, 0); err != nil {
				return n
			}
			n++
		}
	}
}
