package testnet

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Patience is how long a test waits for something that must happen. It only guards against a hang:
// under load, an emulated machine needs many seconds for a step that takes milliseconds elsewhere.
const Patience = time.Minute

// Must ends the test if there is an error.
func Must(tb TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%+v", err)
	}
}

// WaitFor waits until holds returns true, and ends the test if that takes longer than Patience. The
// text completes the sentence "waited for".
func WaitFor(tb TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v for %s", Patience, what)
			return
		}
	}
}

// closeAfter closes something at the end of the test.
func closeAfter(tb TB, what string, close func() error) {
	tb.Cleanup(func() {
		if err := close(); err != nil {
			tb.Errorf("close the %s: %v", what, err)
		}
	})
}

// opened closes something at the end of the test, or ends the test if it could not be opened.
func opened[T io.Closer](tb TB, what string, some T, err error) T {
	tb.Helper()
	Must(tb, err)
	closeAfter(tb, what, some.Close)
	return some
}

// MustNamespace makes a namespace and closes it at the end of the test.
func MustNamespace(tb TB) *Namespace {
	tb.Helper()
	ns, err := NewNamespace()
	return opened(tb, "network namespace", ns, err)
}

// MustSender opens a sender on the pair's Tx and closes it at the end of the test.
func MustSender(tb TB, p *Pair) *Sender {
	tb.Helper()
	s, err := NewSender(p.Tx, p.TxName)
	return opened(tb, "sender", s, err)
}

// MustReceiver attaches a receiver to the pair's Rx and detaches it at the end of the test.
func MustReceiver(tb TB, p *Pair, verdict xdp.Verdict, opts ReceiverOptions) *Receiver {
	tb.Helper()
	r, err := AttachReceiver(p.Rx, p.RxName, verdict, opts)
	return opened(tb, "receiver", r, err)
}

// MustTarget attaches a target to the pair's Rx and detaches it at the end of the test.
func MustTarget(tb TB, p *Pair, kind TargetKind) *Target {
	tb.Helper()
	t, err := AttachTarget(p.Rx, p.RxName, kind)
	Must(tb, err)
	tb.Cleanup(func() { t.Close() }) // fails if the test has removed the interface
	return t
}

// MustGenerator loads a generator and closes it at the end of the test. If the kernel has no live
// frames it skips the test.
func MustGenerator(tb TB, p *Pair) *Generator {
	tb.Helper()
	RequireLiveFrames(tb)
	g, err := newGenerator(p)
	return opened(tb, "generator", g, err)
}

// MustStats reads a pair's counters.
func MustStats(tb TB, p *Pair) PairStats {
	tb.Helper()
	s, err := p.Stats()
	Must(tb, err)
	return s
}

// MustKnow gives an interface of a namespace the MAC address of another endpoint's IPv4 address.
// From then on the kernel sends no ARP requests for it.
func MustKnow(tb TB, ns *Namespace, index int, other Endpoint) {
	tb.Helper()
	Must(tb, ns.Do(func() error {
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: other.IPv4, HardwareAddr: other.MAC})
	}))
}

// WaitUp waits until both ends of a pair can send, after one of them was down. Before that, the
// kernel drops packets that they send, and gives no error.
func WaitUp(tb TB, p *Pair) {
	tb.Helper()
	for _, e := range p.ends() {
		waitUp(tb, *e.ns, func() (netlink.Link, error) { return netlink.LinkByIndex(*e.index) })
	}
}

// waitUp waits until an interface of a namespace is up.
func waitUp(tb TB, ns *Namespace, find func() (netlink.Link, error)) {
	tb.Helper()
	WaitFor(tb, "an interface to be up", func() (isUp bool) {
		Must(tb, ns.Do(func() error {
			link, err := find()
			isUp = err == nil && link.Attrs().OperState == netlink.OperUp
			return err
		}))
		return isUp
	})
}

// WaitArrived waits until sent more frames than before have been delivered to Rx or dropped, and
// returns how many were delivered. XDP programs saw exactly these. Under load, and on emulated
// machines, fewer may be delivered than were sent.
func WaitArrived(tb TB, p *Pair, before PairStats, sent uint64) (delivered uint64) {
	tb.Helper()
	want := before.Delivered + before.Dropped + sent
	var now PairStats
	WaitFor(tb, "the frames to arrive", func() bool {
		now = MustStats(tb, p)
		return now.Delivered+now.Dropped >= want
	})
	return now.Delivered - before.Delivered
}

// Send sends frames with one system call each, and waits until they have arrived. It sends some at
// a time, so that Rx's ring has room for them even if they are not taken out meanwhile.
func Send(tb TB, p *Pair, frames ...[]byte) {
	tb.Helper()
	s, err := p.sender()
	Must(tb, err)
	for some := range slices.Chunk(frames, 100) {
		before := MustStats(tb, p)
		for _, f := range some {
			Must(tb, s.Send(f))
		}
		sent := uint64(len(some))
		if delivered := WaitArrived(tb, p, before, sent); delivered != sent {
			tb.Fatalf("of %d frames %d arrived", sent, delivered)
		}
	}
}

// Generate sends opts.Count frames from the kernel (on an emulated machine at a lower rate, see
// Rate), and waits until they have arrived. A test must compare its counts with delivered (see
// WaitArrived), not with the number of frames sent. If the kernel has no live frames it skips the
// test.
func Generate(tb TB, p *Pair, opts GeneratorOptions) (r Result, delivered uint64) {
	tb.Helper()
	RequireLiveFrames(tb)
	before := MustStats(tb, p)
	g, err := newGenerator(p)
	Must(tb, err)
	defer g.Close()
	limit := Patience
	if opts.Rate > 0 {
		opts.Rate = Rate(opts.Rate)
		limit += time.Duration(float64(opts.Count) / opts.Rate * float64(time.Second))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err = g.Run(ctx, opts)
	Must(tb, err)
	if r.Sent != opts.Count {
		tb.Fatalf("sent %d of %d frames in %v", r.Sent, opts.Count, limit)
	}
	return r, WaitArrived(tb, p, before, r.Sent)
}

// MountAt gives a namespace a path, as ip netns and container runtimes do, until the test ends.
func (ns *Namespace) MountAt(tb TB, path string) {
	tb.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", int(ns.handle)), path, "", unix.MS_BIND, "")
	}
	if err != nil {
		tb.Fatalf("mount a network namespace at %s: %v", path, err)
	}
	tb.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
}
