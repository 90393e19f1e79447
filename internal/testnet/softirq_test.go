package testnet

import (
	"runtime"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// WaitHandled also waits for a packet that another CPU handles, and not by ksoftirqd.
func TestWaitHandled(t *testing.T) {
	t.Parallel()
	if runtime.NumCPU() < 2 {
		skip(t, "needs two CPUs")
	}
	if len(softirqThreads()) == 0 {
		t.Skip("this process does not see the kernel's threads")
	}
	p := MustPair(t, PairOptions{})
	target, err := AttachTarget(p.Rx, p.RxName, Waiting)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, "target", target.Close)
	s := MustSender(t, p)
	sent, opened := make(chan error, 1), make(chan error, 1)
	go func() { sent <- machine.Quiet(1, func() error { return s.Send(UDPFrame(MinFrame, 0)) }) }()
	WaitFor(t, "the packet to be inside", func() bool {
		inside, err := target.HasPacket()
		return inside || err != nil
	})
	go func() {
		time.Sleep(5 * time.Millisecond)
		opened <- target.OpenGate()
	}()
	WaitHandled(t)
	if counts, err := target.Verdicts(); err != nil || counts[xdp.Pass] != 1 {
		t.Errorf("the program has passed %d packets, want 1: %v", counts[xdp.Pass], err)
	}
	for _, end := range []chan error{opened, sent} {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}
