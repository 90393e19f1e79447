package capture_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func updateLink(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	l := systest.LinkAt(t, pair)
	defer l.Close()
	testnet.Must(t, l.Update(systest.LoadDropping(t)))
}

// replaceProgram detaches the program and attaches another one.
func replaceProgram(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	systest.DetachLink(t, pair)
	prog := systest.LoadDropping(t)
	testnet.Must(t, pair.Rx.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

// A capture whose own program was detached from its interface ends with an error that reports it,
// and with all packets before. A capture that is ended earlier checks once more at its end.
func TestOwnProgramLeaves(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		name  string
		act   func(*testing.T, *testnet.Pair)
		want  string
		ended bool
	}{
		{"detached", systest.DetachLink, "which runs none now", false},
		{"updated", updateLink, "which runs program with id ", false},
		{"detached at the end", systest.DetachLink, "which runs none now", true},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			test.act(t, pair)
			if test.ended {
				p.Cmd.Process.Signal(os.Interrupt)
			}
			systest.CheckBlind(t, p, "rx0 is no longer captured: XDP program xdpcap_", "has left rx0, "+test.want,
				": start again to capture what runs there now")
			if s := systest.Account(t, p.Stderr()); s.Captured != 1 {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// If some of the interfaces are blind, the capture goes on, reports it at once, and ends with an
// error, even if packets keep arriving on the others.
func TestSomeInterfacesLeave(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	pairs := []*testnet.Pair{pair}
	args := []string{"-i", pair.RxName, "-w", os.DevNull, "--json"}
	for i := range 3 {
		o := testnet.PairOptions{Rx: pair.Rx, RxName: fmt.Sprintf("rx%d", i+1), TxName: fmt.Sprintf("tx%d", i+1)}
		pairs = append(pairs, testnet.MustPair(t, o))
		args = append(args, "-i", o.RxName)
	}
	p := systest.Listening(t, pair.Rx, nil, args...)
	busy := systest.Trickle(t, pair)
	systest.InRx(t, pairs[1], netlink.LinkDel)
	const gone = "xdpcap: interface rx1 was deleted or moved to another network namespace\n"
	systest.WaitStderr(t, p, gone)
	systest.DetachLink(t, pairs[2])
	const detached = "xdpcap: rx2 is no longer captured: "
	systest.WaitStderr(t, p, detached)
	busy()
	testnet.Send(t, pairs[3], testnet.UDPFrame(64, 0), testnet.UDPFrame(64, 1))
	p.Cmd.Process.Signal(os.Interrupt)
	status, stderr := p.Wait()
	if status != 1 || strings.Count(stderr, gone) != 2 || strings.Count(stderr, detached) != 2 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if s := systest.Account(t, stderr); s.Captured != s.Seen || s.Captured < 2 {
		t.Errorf("summary %+v", s)
	}
}

// The same applies to a capture whose traced program no longer runs on the interface.
func TestTracedProgramLeaves(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for i, test := range []struct {
		name string
		act  func(*testing.T, *testnet.Pair)
		want string
	}{
		{"detached", systest.DetachLink, "which runs none now"},
		{"updated", updateLink, "which runs program with id "},
		{"replaced", replaceProgram, "which runs program with id "},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			testnet.MustTarget(t, pair, testnet.Rewriting)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", os.DevNull, "--json")
			systest.SendRound(t, pair)
			test.act(t, pair)
			systest.CheckBlind(t, p, "rx0 is no longer captured: XDP program rewriting_target_program (id ", "has left rx0, "+test.want)
			if s := systest.Account(t, p.Stderr()); s.Captured != 2*uint64(len(systest.Answers)) {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// A component is captured as long as it runs, even behind another dispatcher, if the capture keeps
// the capability that it needs to find it there.
func TestDispatcherChanges(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", names[0]+","+names[1], "-w", os.DevNull, "--json", "--no-sandbox")
	testnet.Must(t, first.Replace(1))
	want := "xdpcap: rx0 is no longer captured: XDP program " + names[0] + " (id "
	systest.WaitStderr(t, p, want)
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	first.Close()
	systest.CheckBlind(t, p, "no longer captured: XDP program "+names[1]+" (id ", "has left rx0, which runs none now")
	if s := systest.Account(t, p.Stderr()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// Without that capability the capture ends with a reason when the dispatcher is replaced.
func TestDispatcherHidden(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	name := testnet.DispatcherComponents[1]
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", name, "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	testnet.Must(t, d.Replace(1))
	systest.CheckBlind(t, p, "rx0 is no longer captured: rx0 runs program with id ", "only CAP_SYS_ADMIN may see whether that still calls XDP program "+name+" (id ",
		": start again, and add --no-sandbox to survive")
	if s := systest.Account(t, p.Stderr()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// A hook map whose slot another process fills is blind for one verdict.
func TestHookMapSlotTaken(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	hook := systest.PinHook(t, target.Hook())
	p := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json")
	testnet.Must(t, target.Hook().Put(uint32(xdp.Tx), target.Program()))
	systest.CheckBlind(t, p, hook+" is no longer captured: ", "slot tx holds program with id ")
}

// A hook map is also blind if no program calls it any more, because its owner has ended. Only a
// process with CAP_SYS_ADMIN can detect that.
func TestHookMapOwnerLeaves(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	hook := systest.PinHook(t, target.Hook())
	p := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json", "--no-sandbox")
	systest.SendRound(t, pair)
	target.Close()
	systest.CheckBlind(t, p, hook+" is no longer captured: no program calls it, since hooked_target_frags (id ", " is gone")
	if s := systest.Account(t, p.Stderr()); s.Captured != 5 {
		t.Errorf("summary %+v", s)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull).Wait()
	if status != 1 || !strings.Contains(stderr, "hook map "+hook+": no program calls it: load its owner first") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}
