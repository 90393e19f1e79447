package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// linkAt opens the link that holds the XDP program of an interface, as bpftool does.
func linkAt(t *testing.T, pair *testnet.Pair) link.Link {
	t.Helper()
	var ifi xdp.Interface
	err := pair.Rx.Do(func() (err error) {
		ifi, err = xdp.InterfaceByName(pair.RxName)
		return err
	})
	if err != nil || len(ifi.Programs) != 1 {
		t.Fatalf("%s runs %v, %v", pair.RxName, ifi.Programs, err)
	}
	var found link.Link
	testnet.WaitFor(t, "the link that holds "+ifi.Programs[0].String(), func() bool {
		links := new(link.Iterator) // ends early at a link that another process is making or taking down
		defer links.Close()
		for links.Next() {
			if info, err := links.Link.Info(); err == nil && info.XDP() != nil && uint32(info.Program) == ifi.Programs[0].ID {
				found = links.Take()
				return true
			}
		}
		return false
	})
	return found
}

func detachLink(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	l := linkAt(t, pair)
	defer l.Close()
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
}

// loadDropping loads a program without BTF.
func loadDropping(t *testing.T) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "another",
		Type:         ebpf.XDP,
		AttachType:   ebpf.AttachXDP,           // this and the flags are those of
		Flags:        unix.BPF_F_XDP_HAS_FRAGS, // the program that it replaces
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Drop)), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

func updateLink(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	l := linkAt(t, pair)
	defer l.Close()
	if err := l.Update(loadDropping(t)); err != nil {
		t.Fatal(err)
	}
}

// replaceProgram takes the program off and attaches another one.
func replaceProgram(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	detachLink(t, pair)
	prog := loadDropping(t)
	err := pair.Rx.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A capture whose own program was taken off its interface ends with an error that says so, and with
// all packets that came before.
func TestOwnProgramLeaves(t *testing.T) {
	for i, test := range []struct {
		name string
		act  func(*testing.T, *testnet.Pair)
		want string
	}{
		{"detached", detachLink, "which runs none now"},
		{"updated", updateLink, "which runs program with id "},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			test.act(t, pair)
			checkBlind(t, p, "rx0 is no longer captured: XDP program sample_", "has left rx0, "+test.want,
				": start again to capture what runs there now")
			if s := account(t, p.said()); s.Captured != 1 {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// A capture that is ended before it has noticed that it is blind looks once more.
func TestBlindAtTheEnd(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
	detachLink(t, pair)
	p.cmd.Process.Signal(os.Interrupt)
	checkBlind(t, p, "rx0 is no longer captured: XDP program sample_")
}

// checkBlind expects that the process ends with one line that has all of the words.
func checkBlind(t *testing.T, p *process, want ...string) {
	t.Helper()
	status, stderr := p.wait()
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, want[0]) {
			for _, words := range want {
				if !strings.Contains(line, words) {
					t.Errorf("%q does not say %q", line, words)
				}
			}
			return
		}
	}
	t.Errorf("%q does not say %q", stderr, want[0])
}

// If some of the interfaces are blind, the capture goes on, says so at once, and ends with an
// error, even if packets keep coming on the others.
func TestSomeInterfacesLeave(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	pairs := []*testnet.Pair{pair}
	args := []string{"-i", pair.RxName, "-w", os.DevNull, "--json"}
	for i := range 3 {
		o := testnet.PairOptions{Rx: pair.Rx, RxName: fmt.Sprintf("rx%d", i+1), TxName: fmt.Sprintf("tx%d", i+1)}
		pairs = append(pairs, testnet.MustPair(t, o))
		args = append(args, "-i", o.RxName)
	}
	p := listening(t, pair.Rx, nil, args...)
	busy := trickle(t, pair)
	inRx(t, pairs[1], netlink.LinkDel)
	const gone = "xdpcap: interface rx1 was deleted or moved to another network namespace\n"
	testnet.WaitFor(t, "the word that rx1 has gone", func() bool { return strings.Contains(p.said(), gone) })
	detachLink(t, pairs[2])
	const detached = "xdpcap: rx2 is no longer captured: "
	testnet.WaitFor(t, "the word that rx2 is blind", func() bool { return strings.Contains(p.said(), detached) })
	busy()
	testnet.Send(t, pairs[3], testnet.UDPFrame(64, 0), testnet.UDPFrame(64, 1))
	p.cmd.Process.Signal(os.Interrupt)
	status, stderr := p.wait()
	if status != 1 || strings.Count(stderr, gone) != 2 || strings.Count(stderr, detached) != 2 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if s := account(t, stderr); s.Captured != s.Seen || s.Captured < 2 {
		t.Errorf("summary %+v", s)
	}
}

// So does a capture whose traced program no longer runs on the interface.
func TestTracedProgramLeaves(t *testing.T) {
	testnet.RequireFentry(t)
	for i, test := range []struct {
		name string
		act  func(*testing.T, *testnet.Pair)
		want string
	}{
		{"detached", detachLink, "which runs none now"},
		{"updated", updateLink, "which runs program with id "},
		{"replaced", replaceProgram, "which runs program with id "},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			attachTarget(t, pair, testnet.Rewriting)
			p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", os.DevNull, "--json")
			sendRound(t, pair)
			test.act(t, pair)
			checkBlind(t, p, "rx0 is no longer captured: XDP program rewriting_target_program (id ", "has left rx0, "+test.want)
			if s := account(t, p.said()); s.Captured != 2*uint64(len(answers)) {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// A component is captured as long as it runs, even behind another dispatcher, if the capture keeps
// the capability that it needs to look there.
func TestDispatcherChanges(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first, err := testnet.AttachDispatcher(pair.Rx, pair.RxName)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	names := testnet.DispatcherComponents
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", names[0]+","+names[1], "-w", os.DevNull, "--json", "--no-sandbox")
	if err := first.Replace(1); err != nil {
		t.Fatal(err)
	}
	want := "xdpcap: rx0 is no longer captured: XDP program " + names[0] + " (id "
	testnet.WaitFor(t, "the word that a component has left", func() bool { return strings.Contains(p.said(), want) })
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	first.Close()
	checkBlind(t, p, "no longer captured: XDP program "+names[1]+" (id ", "has left rx0, which runs none now")
	if s := account(t, p.said()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// Without that capability the capture ends when the dispatcher is replaced, and says why.
func TestDispatcherHidden(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d, err := testnet.AttachDispatcher(pair.Rx, pair.RxName)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	name := testnet.DispatcherComponents[1]
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", name, "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	if err := d.Replace(1); err != nil {
		t.Fatal(err)
	}
	checkBlind(t, p, "rx0 is no longer captured: rx0 runs program with id ", "only CAP_SYS_ADMIN may see whether that still calls XDP program "+name+" (id ",
		": start again, and add --no-sandbox to survive")
	if s := account(t, p.said()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// A hook map whose slot somebody else fills is blind for one verdict.
func TestHookMapSlotTaken(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.HookedFrags)
	hook := pinHook(t, target.Hook())
	p := listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json")
	if err := target.Hook().Put(uint32(xdp.Tx), target.Program()); err != nil {
		t.Fatal(err)
	}
	checkBlind(t, p, hook+" is no longer captured: ", "slot tx holds program with id ")
}

// A hook map is also blind if no program calls it any more, because its owner has ended. Only a
// process with CAP_SYS_ADMIN can see that.
func TestHookMapOwnerLeaves(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.HookedFrags)
	hook := pinHook(t, target.Hook())
	p := listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json", "--no-sandbox")
	sendRound(t, pair)
	target.Close()
	checkBlind(t, p, hook+" is no longer captured: no program calls it, since hooked_target_frags (id ", " is gone")
	if s := account(t, p.said()); s.Captured != 5 {
		t.Errorf("summary %+v", s)
	}
	status, stderr := start(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull).wait()
	if status != 1 || !strings.Contains(stderr, "hook map "+hook+": no program calls it: load its owner first") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}
