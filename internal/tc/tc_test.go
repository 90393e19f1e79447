package tc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What the program of somebody else returns, at tcx and clsact alike.
const (
	next = -1
	pass = 0
	drop = 2
)

// A counter is a program that counts packets.
type counter struct {
	*ebpf.Program
	counts *ebpf.Map
}

func newCounter(name string, verdict int32) (counter, error) {
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return counter{}, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, counts.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, verdict),
			asm.Return(),
		},
	})
	return counter{prog, counts}, err
}

// must ends the test if there is an error.
var must = testnet.Must

func mustCounter(t *testing.T, name string, verdict int32) counter {
	t.Helper()
	testnet.RequireRoot(t)
	c, err := newCounter(name, verdict)
	must(t, err)
	t.Cleanup(func() { c.Close(); c.counts.Close() })
	return c
}

func (c counter) expect(t *testing.T, when string, want uint64) {
	t.Helper()
	var got uint64
	must(t, c.counts.Lookup(uint32(0), &got))
	if got != want {
		t.Errorf("%s: counted %d packets, want %d", when, got, want)
	}
}

// forKinds runs a test with each kind that this kernel has.
func forKinds(t *testing.T, f func(t *testing.T, kind tc.Kind)) {
	for _, kind := range []tc.Kind{tc.TCX, tc.Clsact} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			requireKind(t, kind)
			f(t, kind)
		})
	}
}

func requireKind(t *testing.T, kind tc.Kind) {
	t.Helper()
	testnet.RequireRoot(t)
	if err := lacks[kind](); errors.Is(err, tc.ErrNoKind) || errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("needs %v: %v", kind, err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// lacks has, for each kind, why this kernel does not have it.
var lacks = map[tc.Kind]func() error{
	tc.TCX:    sync.OnceValue(func() error { return try(tc.TCX) }),
	tc.Clsact: sync.OnceValue(func() error { return try(tc.Clsact) }),
}

func try(kind tc.Kind) (err error) {
	return errors.Join(testnet.Try(context.Background(), func(tb testnet.TB) {
		p := testnet.MustPair(tb, testnet.PairOptions{})
		var c counter
		if c, err = newCounter("trial", next); err != nil {
			return
		}
		defer c.Close()
		defer c.counts.Close()
		var a *tc.Attachment
		if a, err = attach(p, kind, c); err == nil {
			err = a.Close()
		}
	}), err)
}

// attach attaches to the sending side of a pair.
func attach(p *testnet.Pair, kind tc.Kind, c counter) (a *tc.Attachment, err error) {
	return attachAt(p.Tx, p.TxName, tc.Egress, kind, c)
}

func attachAt(ns *testnet.Namespace, name string, at tc.Direction, kind tc.Kind, c counter) (a *tc.Attachment, err error) {
	err = ns.Do(func() error {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		a, err = tc.AttachAs(kind, c.Program, ifi, at)
		return err
	})
	return a, err
}

func mustAttach(t *testing.T, p *testnet.Pair, kind tc.Kind, c counter) *tc.Attachment {
	t.Helper()
	a, err := attach(p, kind, c)
	must(t, err)
	return a
}

func mustClose(t *testing.T, a *tc.Attachment) {
	t.Helper()
	if err := a.Check(); err != nil {
		t.Errorf("before the end: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// send sends packets, which all arrive.
func send(t *testing.T, p *testnet.Pair, n int) {
	t.Helper()
	for i := range n {
		testnet.Send(t, p, testnet.UDPFrame(testnet.MinFrame, uint64(i)))
	}
}

// state is what `tc` shows of the sending side: its qdisc clsact, filters and tcx programs.
func state(t *testing.T, p *testnet.Pair) (lines []string) {
	t.Helper()
	must(t, p.Tx.Do(func() error {
		l, err := netlink.LinkByName(p.TxName)
		must(t, err)
		qdiscs, err := netlink.QdiscList(l)
		must(t, err)
		for _, q := range qdiscs {
			if q.Attrs().Parent == netlink.HANDLE_CLSACT {
				lines = append(lines, q.Type())
			}
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			filters, err := netlink.FilterList(l, parent)
			must(t, err)
			for _, f := range filters {
				b := f.(*netlink.BpfFilter)
				lines = append(lines, fmt.Sprintf("%v %d %x %s", b.Priority, b.Protocol, b.Handle, b.Name))
			}
		}
		for _, side := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			found, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: side})
			if err != nil { // this kernel has no tcx
				return nil
			}
			for _, one := range found.Programs {
				lines = append(lines, "tcx "+programName(one.ID))
			}
		}
		return nil
	}))
	return lines
}

func programName(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return err.Error()
	}
	return info.Name
}

func expectState(t *testing.T, when string, p *testnet.Pair, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, state(t, p)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// clsact is the qdisc of the sending side.
func clsact(p *testnet.Pair) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: p.TxIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

// addFilter does as somebody else would, and makes the qdisc where it is not there.
func addFilter(t *testing.T, p *testnet.Pair, c counter, priority uint16, protocol uint16) {
	t.Helper()
	must(t, p.Tx.Do(func() error {
		err := netlink.QdiscAdd(clsact(p))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: p.TxIndex, Parent: netlink.HANDLE_MIN_EGRESS,
				Priority: priority, Handle: 1, Protocol: protocol},
			Fd: c.FD(), Name: "theirs", DirectAction: true,
		})
	}))
}

// Every packet that is sent is seen, while attached and no longer. Nothing is left.
func TestAttachEgress(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		p := testnet.MustPair(t, testnet.PairOptions{})
		c := mustCounter(t, "ours", next)
		a := mustAttach(t, p, kind, c)
		send(t, p, 3)
		c.expect(t, "attached", 3)
		if a.Kind() != kind || a.String() != kind.String() {
			t.Errorf("attached by %v (%v), want %v", a.Kind(), a, kind)
		}
		mustClose(t, a)
		send(t, p, 1)
		c.expect(t, "detached", 3)
		expectState(t, "at the end", p)
	})
}

// A program at ingress sees what the interface receives, and none of it what it sends. One at each
// side of an interface, of which either may leave first, leave nothing behind.
func TestIngress(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		p := testnet.MustPair(t, testnet.PairOptions{})
		received, sent := mustCounter(t, "received", next), mustCounter(t, "sent", next)
		a, err := attachAt(p.Rx, p.RxName, tc.Ingress, kind, received)
		must(t, err)
		b, err := attachAt(p.Tx, p.TxName, tc.Ingress, kind, sent)
		must(t, err)
		send(t, p, 5)
		received.expect(t, "at the ingress of the receiver", 5)
		sent.expect(t, "at the ingress of the sender", 0)
		mustClose(t, a)
		for _, last := range []tc.Direction{tc.Egress, tc.Ingress} {
			c := mustAttach(t, p, kind, sent)
			first, second := b, c
			if last == tc.Ingress {
				first, second = c, b
			}
			mustClose(t, first)
			if lines := state(t, p); len(lines) == 0 {
				t.Errorf("the one at %v has gone with the other", last)
			}
			mustClose(t, second)
			if lines := state(t, p); lines != nil {
				t.Errorf("when the one at %v has left, there is %q", last, lines)
			}
			b, err = attachAt(p.Tx, p.TxName, tc.Ingress, kind, sent)
			must(t, err)
		}
		if kind == tc.Clsact {
			must(t, p.Tx.Do(func() error { return netlink.QdiscDel(clsact(p)) }))
		} else {
			detachLink(t, p, ebpf.AttachTCXIngress)
		}
		const want = "at the ingress of tx0: somebody has "
		if err := b.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s...", err, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The kernel's newest kind is taken, which can be known before.
func TestKindOfKernel(t *testing.T) {
	t.Parallel()
	p := testnet.MustPair(t, testnet.PairOptions{})
	want := tc.TCX
	if errors.Is(lacks[tc.TCX](), ebpf.ErrNotSupported) {
		want = tc.Clsact
	}
	must(t, p.Tx.Do(func() error {
		ifi, err := xdp.InterfaceByName(p.TxName)
		must(t, err)
		a, err := tc.Attach(mustCounter(t, "ours", next).Program, ifi, tc.Egress)
		must(t, err)
		found, err := tc.Find(mustCounter(t, "ours", next).Program)
		if err != nil {
			t.Error(err)
		}
		if a.Kind() != want || found != want {
			t.Errorf("attached by %v, found %v, want %v", a.Kind(), found, want)
		}
		return a.Close()
	}))
}

// Programs of others at tcx, first and last, stay where they are and see what they saw. Ours comes
// before them, so it also sees what they drop.
func TestBesideTCX(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		requireKind(t, tc.TCX)
		p := testnet.MustPair(t, testnet.PairOptions{})
		first, last, ours := mustCounter(t, "first", next), mustCounter(t, "last", pass), mustCounter(t, "ours", next)
		for _, other := range []struct {
			counter
			anchor link.Anchor
		}{{last, link.Tail()}, {first, link.Head()}} {
			must(t, p.Tx.Do(func() error {
				l, err := link.AttachTCX(link.TCXOptions{Interface: p.TxIndex, Program: other.Program,
					Attach: ebpf.AttachTCXEgress, Anchor: other.anchor})
				if err == nil {
					t.Cleanup(func() { l.Close() })
				}
				return err
			}))
		}
		send(t, p, 1)
		a := mustAttach(t, p, kind, ours)
		if kind == tc.TCX {
			expectState(t, "attached", p, "tcx ours", "tcx first", "tcx last")
		}
		send(t, p, 2)
		if kind == tc.TCX {
			ours.expect(t, "attached", 2)
		} else { // behind the last one's verdict
			ours.expect(t, "attached", 0)
		}
		mustClose(t, a)
		send(t, p, 1)
		expectState(t, "at the end", p, "tcx first", "tcx last")
		first.expect(t, "at the end", 4)
		last.expect(t, "at the end", 4)
	})
}

// Filters of others at clsact stay where they are and see what they saw, and so does the qdisc.
func TestBesideClsact(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		requireKind(t, tc.Clsact)
		p := testnet.MustPair(t, testnet.PairOptions{})
		theirs, ours := mustCounter(t, "theirs", pass), mustCounter(t, "ours", next)
		addFilter(t, p, theirs, 1, unix.ETH_P_ALL)
		before := state(t, p)
		a := mustAttach(t, p, kind, ours)
		send(t, p, 2)
		ours.expect(t, "attached", 2)
		theirs.expect(t, "beside ours", 2)
		mustClose(t, a)
		send(t, p, 1)
		theirs.expect(t, "at the end", 3)
		expectState(t, "at the end", p, before...)

		// What others drop is seen, too.
		dropped, dropping := testnet.MustPair(t, testnet.PairOptions{}), mustCounter(t, "dropping", drop)
		addFilter(t, dropped, dropping, 1, unix.ETH_P_ALL)
		a = mustAttach(t, dropped, kind, ours)
		s := testnet.MustSender(t, dropped)
		s.Send(testnet.UDPFrame(testnet.MinFrame, 0)) // an error tells the sender of the drop
		ours.expect(t, "what is dropped", 3)
		dropping.expect(t, "what is dropped", 1)
		mustClose(t, a)
	})
}

// A filter that has the first priority, and with which ours cannot share it, comes before, which is
// said.
func TestBehindFilter(t *testing.T) {
	t.Parallel()
	requireKind(t, tc.Clsact)
	p := testnet.MustPair(t, testnet.PairOptions{})
	theirs, ours := mustCounter(t, "theirs", next), mustCounter(t, "ours", next)
	addFilter(t, p, theirs, 1, unix.ETH_P_IP)
	a := mustAttach(t, p, tc.Clsact, ours)
	if want := "clsact, after a filter of somebody else"; a.String() != want {
		t.Errorf("%v, want %s", a, want)
	}
	send(t, p, 2)
	ours.expect(t, "attached", 2)
	theirs.expect(t, "beside ours", 2)
	mustClose(t, a)
	expectState(t, "at the end", p, "clsact", "1 2048 1 theirs")
}

// The qdisc that we made stays where somebody else has put a filter in.
func TestQdiscStaysForOthers(t *testing.T) {
	t.Parallel()
	requireKind(t, tc.Clsact)
	p := testnet.MustPair(t, testnet.PairOptions{})
	a := mustAttach(t, p, tc.Clsact, mustCounter(t, "ours", next))
	addFilter(t, p, mustCounter(t, "theirs", next), 7, unix.ETH_P_ALL)
	mustClose(t, a)
	expectState(t, "at the end", p, "clsact", "7 3 1 theirs")
}

// The qdisc ingress is in the place of clsact: CheckQdisc and AttachEgress both report that.
func TestQdiscIngress(t *testing.T) {
	t.Parallel()
	requireKind(t, tc.Clsact)
	p := testnet.MustPair(t, testnet.PairOptions{})
	const want = "the qdisc ingress is in the place of clsact, which can do the same: replace it by clsact, and move its filters there"
	must(t, p.Tx.Do(func() error {
		if err := tc.CheckQdisc(p.TxIndex); err != nil {
			t.Errorf("without: %v", err)
		}
		if err := netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: p.TxIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}); err != nil {
			return err
		}
		if err := tc.CheckQdisc(p.TxIndex); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		return nil
	}))
	if _, err := attach(p, tc.Clsact, mustCounter(t, "ours", next)); err == nil ||
		err.Error() != "attach a program at the egress of tx0 by clsact: "+want {
		t.Errorf("%v, want %s", err, want)
	}
	expectState(t, "after the error", p, "ingress")
}

// Several captures on one interface work side by side, and the last one takes everything away, in
// whichever order they end.
func TestTwoAtATime(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		for _, lastEndsFirst := range []bool{false, true} {
			p := testnet.MustPair(t, testnet.PairOptions{})
			c := []counter{mustCounter(t, "one", next), mustCounter(t, "two", next)}
			a := []*tc.Attachment{mustAttach(t, p, kind, c[0]), mustAttach(t, p, kind, c[1])}
			if lastEndsFirst {
				a[0], a[1], c[0], c[1] = a[1], a[0], c[1], c[0]
			}
			send(t, p, 1)
			mustClose(t, a[0])
			send(t, p, 1)
			c[0].expect(t, "ended", 1)
			c[1].expect(t, "goes on", 2)
			mustClose(t, a[1])
			expectState(t, "at the end", p)
		}
	})
}

// After kill -9 nothing is attached by tcx. A filter is left that calls nothing: the kernel removes
// the program with its maps. The next start removes the filter, but not that of a capture that
// runs; the last one removes the qdisc that the killed one has made.
func TestKilled(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		p := testnet.MustPair(t, testnet.PairOptions{})
		killed := startChild(t, p, kind, "wait")
		running := startChild(t, p, kind, "wait")
		both := []string{"clsact", "1 3 78646302 xdpcap:clsact", "1 3 78646301 xdpcap:clsact"}
		if kind == tc.TCX {
			both = []string{"tcx " + running.program, "tcx " + killed.program}
		}
		expectState(t, "two run", p, both...)
		killed.kill(t)
		testnet.WaitFor(t, "the program to be removed", func() bool { return !isLoaded(t, killed.program) })
		if kind == tc.TCX {
			// The kernel detaches when it closes the file of the killed process.
			testnet.WaitFor(t, "the program to be detached", func() bool { return len(state(t, p)) == 1 })
			running.kill(t)
			testnet.WaitFor(t, "the program to be detached", func() bool { return len(state(t, p)) == 0 })
			return
		}
		expectState(t, "one was killed", p, both...)
		a := mustAttach(t, p, kind, mustCounter(t, "ours", next))
		// It has taken the handle of the killed one, and stands before the others.
		expectState(t, "the next one", p, both[0], both[2], both[1])
		mustClose(t, a)
		expectState(t, "it has ended", p, both[:2]...)
		running.kill(t)
		mustClose(t, mustAttach(t, p, kind, mustCounter(t, "last", next)))
		expectState(t, "at the end", p)
	})
}

// Any process in the network namespace can take the numbers by which captures claim their handles.
// A capture takes another handle then, and what it leaves when it is killed is removed as ever.
func TestHandlesTaken(t *testing.T) {
	t.Parallel()
	requireKind(t, tc.Clsact)
	p := testnet.MustPair(t, testnet.PairOptions{})
	must(t, p.Tx.Do(func() error {
		for handle := 0x78646301; handle <= 0x786463ff; handle++ {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
			must(t, err)
			t.Cleanup(func() { unix.Close(fd) })
			must(t, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: tc.Number(fmt.Sprintf("%d/%x", p.TxIndex, handle))}))
		}
		return nil
	}))
	startChild(t, p, tc.Clsact, "wait").kill(t)
	if left := state(t, p); len(left) != 2 {
		t.Errorf("after the kill: %v", left)
	}
	c := mustCounter(t, "ours", next)
	a := mustAttach(t, p, tc.Clsact, c)
	send(t, p, 1)
	c.expect(t, "attached", 1)
	if there := state(t, p); len(there) != 2 {
		t.Errorf("beside the capture: %v", there)
	}
	mustClose(t, a)
	expectState(t, "at the end", p)
}

// A program ends with its Attachment, also where another process has a copy of the link for a
// moment, as a child has before it executes another program.
func TestCloseBesideCopy(t *testing.T) {
	t.Parallel()
	requireKind(t, tc.TCX)
	p := testnet.MustPair(t, testnet.PairOptions{})
	a := mustAttach(t, p, tc.TCX, mustCounter(t, "ours", next))
	held := tcxLink(t, p, ebpf.AttachTCXEgress)
	defer held.Close()
	mustClose(t, a)
	expectState(t, "closed", p)
}

// isLoaded reports whether a program of this name is loaded.
func isLoaded(t *testing.T, name string) bool {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return false
		}
		must(t, err)
		if id = next; programName(id) == name {
			return true
		}
	}
}

// A process that has given up all other privileges can look after its program and detach it.
func TestWithoutPrivileges(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		p := testnet.MustPair(t, testnet.PairOptions{})
		child := startChild(t, p, kind, "sandbox")
		if err := child.end(); err != nil {
			t.Error(err)
		}
		expectState(t, "at the end", p)
	})
}

// A program that somebody has detached is missed, and so is the interface.
func TestCheck(t *testing.T) {
	t.Parallel()
	forKinds(t, func(t *testing.T, kind tc.Kind) {
		p := testnet.MustPair(t, testnet.PairOptions{})
		a := mustAttach(t, p, kind, mustCounter(t, "ours", next))
		want := "at the egress of tx0: somebody has detached the tcx link"
		if kind == tc.TCX {
			detachLink(t, p, ebpf.AttachTCXEgress)
		} else {
			want = "at the egress of tx0: somebody has removed the filter, or the qdisc clsact"
			must(t, p.Tx.Do(func() error { return netlink.QdiscDel(clsact(p)) }))
		}
		if err := a.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err := a.Close(); err != nil {
			t.Errorf("detach what is detached: %v", err)
		}

		gone := testnet.MustPair(t, testnet.PairOptions{TxName: "gone"})
		a = mustAttach(t, gone, kind, mustCounter(t, "ours", next))
		must(t, gone.Tx.Do(func() error {
			return netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "gone"}})
		}))
		if err := a.Close(); err != nil {
			t.Errorf("detach from what has gone: %v", err)
		}
	})
}

// detachLink does what `bpftool link detach` does to the only tcx link of the sending side.
func detachLink(t *testing.T, p *testnet.Pair, side ebpf.AttachType) {
	t.Helper()
	l := tcxLink(t, p, side)
	defer l.Close()
	must(t, l.Detach())
}

// tcxLink opens the only tcx link of the sending side. Other tests make and close links meanwhile.
func tcxLink(t *testing.T, p *testnet.Pair, side ebpf.AttachType) (l link.Link) {
	t.Helper()
	must(t, p.Tx.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: p.TxIndex, Attach: side})
		must(t, err)
		if n := len(found.Programs); n != 1 {
			return fmt.Errorf("%d tcx programs, want one", n)
		}
		id, _ := found.Programs[0].LinkID()
		l, err = link.NewFromID(id)
		return err
	}))
	return l
}

// A child is this test binary as another process.
type child struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	stdout  *bufio.Reader
	program string // a name that no other program on this machine has
}

var children atomic.Uint32

// childVariable makes a process a child; it has the kind, the task, and the names of the interface
// and the program.
const childVariable = "XDPCAP_TEST_EGRESS"

func startChild(t *testing.T, p *testnet.Pair, kind tc.Kind, task string) *child {
	t.Helper()
	c := &child{cmd: exec.Command("/proc/self/exe"), program: fmt.Sprintf("%d_%d", os.Getpid(), children.Add(1))}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s", childVariable, kind, task, p.TxName, c.program))
	stdin, err := c.cmd.StdinPipe()
	must(t, err)
	stdout, err := c.cmd.StdoutPipe()
	must(t, err)
	c.stdin, c.stdout = stdin, bufio.NewReader(stdout)
	must(t, p.Tx.Start(c.cmd))
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	if line, err := c.stdout.ReadString('\n'); line != "attached\n" {
		t.Fatalf("the child says %q: %v", line, err)
	}
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	must(t, c.cmd.Process.Kill())
	c.cmd.Wait()
}

// end lets the child finish its task, and returns its error.
func (c *child) end() error {
	c.stdin.Close()
	said, _ := io.ReadAll(c.stdout)
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s%w", said, err)
	}
	return nil
}

func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		if err := runChild(task); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runChild(task string) error {
	var kind tc.Kind
	var name, ifname, program string
	if _, err := fmt.Sscan(task, &kind, &name, &ifname, &program); err != nil {
		return err
	}
	ifi, err := xdp.InterfaceByName(ifname)
	if err != nil {
		return err
	}
	c, err := newCounter(program, next)
	if err != nil {
		return err
	}
	a, err := tc.AttachAs(kind, c.Program, ifi, tc.Egress)
	if err != nil {
		return err
	}
	if name == "sandbox" {
		box := privilege.Sandbox{Work: []privilege.Work{privilege.BPF}}
		if a.Kind().NeedsNetAdmin() {
			box.Keep = []int{unix.CAP_NET_ADMIN}
		}
		if err := box.Enter(); err != nil {
			return err
		}
	}
	fmt.Println("attached")
	io.Copy(io.Discard, os.Stdin)
	if err := a.Check(); err != nil {
		return err
	}
	return a.Close()
}
