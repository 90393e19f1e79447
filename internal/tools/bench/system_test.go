package main

import (
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A packet socket's frames arrive, as many as it says.
func TestSocketSender(t *testing.T) {
	testnet.RequireRoot(t)
	l, err := newLane(networkOptions{jumbo: true, cpus: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	r := testnet.MustReceiver(t, l.pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	sent, rate, err := l.send(t.Context(), jumboSize, testnet.Rate(5000), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	total, err := r.Total()
	if err != nil || sent == 0 || rate == 0 || total.Packets != sent || total.Bytes != sent*jumboSize {
		t.Errorf("sent %d frames at %.0f per second, received %+v, %v", sent, rate, total, err)
	}
}

// What is copied while traffic runs is read beside it, and what traffic runs beside it is measured.
func TestCopying(t *testing.T) {
	testnet.RequireLiveFrames(t)
	n, err := newNetwork(networkOptions{cpus: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	w := load{size: testnet.MinFrame, rate: testnet.Rate(100_000), bursts: 2, time: 200 * time.Millisecond, beside: n.pass}
	got, err := n.copying(t.Context(), xdp.Drop, w)
	if err != nil {
		t.Fatal(err)
	}
	if got.sent == 0 || !got.lossless() || got.cpu == 0 || len(got.rates) != 2 || len(got.beside) != 2 {
		t.Errorf("%+v", got)
	}
}

// Programs are run by BPF_PROG_RUN as often as was asked for, and cost something.
func TestProgramCost(t *testing.T) {
	testnet.RequireLiveFrames(t)
	l, err := newLab(networkOptions{cpus: 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	copied, err := l.copyCost(t.Context(), longSize)
	if err != nil || len(copied) != l.runs || median(copied) <= 0 {
		t.Errorf("to copy costs %v ns, %v", copied, err)
	}
	if counted, err := l.countCost(t.Context()); err != nil || len(counted) != l.runs {
		t.Errorf("to count costs %v ns, %v", counted, err)
	}
}
