package main_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// skipEmulated is testnet.SkipEmulated.
func skipEmulated(t *testing.T) {
	t.Helper()
	testnet.SkipEmulated(t)
}

func stopProcess(t *testing.T, p *process) {
	t.Helper()
	if !tryStopProcess(t, p) {
		t.Fatalf("xdpcap %v ended: %s", p.cmd.Args[1:], p.said())
	}
}

// tryStopProcess is false if the process has ended by itself.
func tryStopProcess(t *testing.T, p *process) (stopped bool) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	testnet.WaitFor(t, "the process to stop", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
		stopped = err == nil && strings.Contains(string(stat), ") T ")
		return stopped || err != nil || strings.Contains(string(stat), ") Z ")
	})
	return stopped
}

func continueProcess(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
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

func htons(v uint16) uint16 { return v<<8 | v>>8 }
