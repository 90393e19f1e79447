package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func stopProcess(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the process to stop", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

func continueProcess(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// listenIP counts the IPv4 packets that reach the stack of the receiving side, as tcpdump would see
// them. The returned function ends that.
func listenIP(t *testing.T, pair *testnet.Pair) func() int64 {
	t.Helper()
	var fd int
	err := pair.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(htons(unix.ETH_P_IP)))
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() (n int64) {
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

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// taken is how many frames the receiving side has dealt with so far.
func taken(t *testing.T, pair *testnet.Pair) uint64 {
	t.Helper()
	s, err := pair.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s.Delivered + s.Dropped
}

// waitTaken waits until the receiving side has dealt with so many: it may be busy, and a capture that ends meanwhile would
// not see them.
func waitTaken(t *testing.T, pair *testnet.Pair, frames uint64) {
	t.Helper()
	waitFor(t, "the packets to arrive", func() bool { return taken(t, pair) >= frames })
}

// sendAll sends frames and waits until they have arrived.
func sendAll(t *testing.T, pair *testnet.Pair, frames ...[]byte) {
	t.Helper()
	before := taken(t, pair)
	sender := newSender(t, pair)
	for _, f := range frames {
		if err := sender.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	waitTaken(t, pair, before+uint64(len(frames)))
}
