package capture_test

import (
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

const cpu1 = "/sys/devices/system/cpu/cpu1/online"

// Packets on a CPU that comes online during a capture are captured by the transport ring, and by
// perf if the capture has kept its privileges. Otherwise they are lost, and a notice reports that.
// Not parallel: other tests would lose packets with the CPU.
func TestCPUComesOnline(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("a CPU that goes offline is gone for the whole machine: only where that is emulated")
	}
	for _, test := range []struct {
		name string
		args []string
		lost bool
	}{
		{"ring", []string{"--transport", "ring"}, false},
		{"perf, privileged", []string{"--transport", "perf", "--no-sandbox"}, false},
		{"perf", []string{"--transport", "perf"}, true},
	} {
		t.Run(test.name, func(t *testing.T) { testCPUComesOnline(t, test.lost, test.args...) })
	}
}

func testCPUComesOnline(t *testing.T, lost bool, args ...string) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	sender := testnet.MustSender(t, pair)
	testnet.Must(t, os.WriteFile(cpu1, []byte("0"), 0))
	t.Cleanup(func() { os.WriteFile(cpu1, []byte("1"), 0) })
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", file, "-U", "--json")...)
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	testnet.Must(t, os.WriteFile(cpu1, []byte("1"), 0))
	send := func() { sendOnCPU1(t, pair, sender, 1) }
	if lost {
		const notice = "packets on a CPU that has come online are lost: this process may no longer open perf events (CPU 1); " +
			"--transport ring does without perf events"
		systest.WaitStderr(t, p, notice)
		send()
		if s := systest.Account(t, p.Interrupt()); s.Captured != 1 || s.Lost != 1 {
			t.Errorf("summary %+v", s)
		}
		return
	}
	testnet.WaitFor(t, "a packet on the CPU that has come online", func() bool {
		send()
		for _, packet := range systest.ReadTraced(t, file) {
			if packet.Id>>52 == 1 {
				return true
			}
		}
		return false
	})
	// Packets before the CPU had a ring are lost, and counted.
	if s := systest.Account(t, p.Interrupt()); s.Captured < 2 || s.Invalid != 0 {
		t.Errorf("summary %+v", s)
	}
}

// sendOnCPU1 sends a frame on that CPU, and waits until it has arrived, because a busy kernel
// receives it later.
func sendOnCPU1(t *testing.T, pair *testnet.Pair, sender *testnet.Sender, number uint64) {
	t.Helper()
	before := testnet.MustStats(t, pair)
	testnet.Must(t, machine.Quiet(1, func() error { return sender.Send(testnet.UDPFrame(64, number)) }))
	testnet.WaitArrived(t, pair, before, 1)
}

// If a CPU goes offline and comes back between two checks of the rings, which are a second apart,
// all of its packets are in the account. The transport ring captures them, because its memory
// stays. For perf, the kernel has removed the event with the CPU: packets are lost until there is
// another event, and no notice names the size of the rings as the cause. Not parallel: other tests
// would lose packets with the CPU.
func TestCPUGoesAndComesBack(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("a CPU that goes offline is gone for the whole machine: only where that is emulated")
	}
	for _, transport := range []string{"ring", "perf"} {
		t.Run(transport, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			sender := testnet.MustSender(t, pair)
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-U", "--json", "--transport", transport, "--no-sandbox")
			const each = 20
			sent := uint64(0)
			send := func(n int) {
				t.Helper()
				for range n {
					sendOnCPU1(t, pair, sender, sent)
					sent++
				}
			}
			send(each)
			t.Cleanup(func() { os.WriteFile(cpu1, []byte("1"), 0) })
			for _, state := range []string{"0", "1"} {
				testnet.Must(t, os.WriteFile(cpu1, []byte(state), 0))
			}
			send(each)
			testnet.WaitFor(t, "a packet on the CPU that has come back", func() bool {
				send(1)
				return len(systest.ReadTraced(t, file)) > each
			})
			s := systest.Account(t, p.Interrupt())
			if s.Seen != sent || s.Captured+s.Lost != s.Seen || transport == "ring" && s.Lost > 0 {
				t.Errorf("%d sent, summary %+v", sent, s)
			}
			if strings.Contains(p.Stderr(), "a ring of") {
				t.Errorf("the notice %s", p.Stderr())
			}
		})
	}
}
