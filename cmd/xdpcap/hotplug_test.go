package main

import (
	"os"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/thread"
)

const cpu1 = "/sys/devices/system/cpu/cpu1/online"

// Packets on a CPU that comes online during a capture are captured.
func TestCPUComesOnline(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("a CPU that goes offline is gone for the whole machine: only where that is emulated")
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	sender := testnet.MustSender(t, pair)
	if err := os.WriteFile(cpu1, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(cpu1, []byte("1"), 0) })
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-U", "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	if err := os.WriteFile(cpu1, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	testnet.WaitFor(t, "a packet on the CPU that has come online", func() bool {
		err := thread.Quiet(1, func() error { return sender.Send(testnet.UDPFrame(64, 1)) })
		if err != nil {
			t.Fatal(err)
		}
		for _, packet := range readTraced(t, file) {
			if packet.id>>52 == 1 {
				return true
			}
		}
		return false
	})
	// Packets that came before the CPU had a ring are lost, and counted.
	if s := account(t, p.interrupt()); s.Captured < 2 || s.Invalid != 0 {
		t.Errorf("summary %+v", s)
	}
}
