package trace_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// mustAtTC attaches a target where the sending interface of a pair sends, or its receiving one
// receives, and returns the namespace and the interface. It skips the test if there is no tcx.
func mustAtTC(t *testing.T, pair *testnet.Pair, kind testnet.TargetKind, isEgress, isFilter bool) (*testnet.Target, *testnet.Namespace, string) {
	t.Helper()
	target, err := testnet.NewTarget(kind)
	testnet.Must(t, err)
	t.Cleanup(func() { target.Close() })
	ns, name := pair.Rx, pair.RxName
	if isEgress {
		ns, name = pair.Tx, pair.TxName
	}
	err = target.AttachAtTC(ns, name, isEgress, isFilter)
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip("this kernel has no tcx")
	}
	testnet.Must(t, err)
	return target, ns, name
}

// sendRound is systest.SendRound, also where a program at egress drops some of the frames: then
// they have passed it when they are sent.
func sendRound(t *testing.T, pair *testnet.Pair, isEgress bool) (frames [][]byte) {
	t.Helper()
	if !isEgress {
		return systest.SendRound(t, pair)
	}
	s, err := testnet.NewSender(pair.Tx, pair.TxName)
	testnet.Must(t, err)
	defer s.Close()
	for _, a := range systest.Answers {
		frame := testnet.TxToRx().UDP(1000, a.Port, []byte("payload"))
		if err := s.Send(frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return frames
}

// A program at tc has entries with the packets as they come, and exits with the packets as it
// leaves them, also a VLAN tag that is kept beside the packet, and with its verdicts.
func TestAtTC(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, test := range []struct {
		name               string
		isEgress, isFilter bool
		transport          string
	}{
		{"ingress by tcx", false, false, "ring"},
		{"egress by tcx", true, false, "perf"},
		{"ingress by clsact", false, true, "perf"},
		{"egress by clsact", true, true, "ring"},
	} {
		t.Run(test.name, func(t *testing.T) { testAtTC(t, test.isEgress, test.isFilter, test.transport) })
	}
}

func testAtTC(t *testing.T, isEgress, isFilter bool, transport string) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	_, ns, name := mustAtTC(t, pair, testnet.AtTC, isEgress, isFilter)
	file := systest.TempFile(t)
	args := []string{"-i", name, "--program", "rewriting_tc_target", "--transport", transport, "--json"}
	p := systest.Listening(t, ns, nil, append(args, "--rx-capture", "entry,exit", "-w", file)...)
	frames := sendRound(t, pair, isEgress)
	n := uint64(len(frames))
	s := systest.Account(t, p.Interrupt())
	if s.Seen != 2*n || s.Captured != 2*n || s.Interfaces[0].Program != "rewriting_tc_target" {
		t.Errorf("summary %+v", s)
	}
	packets := systest.ReadTraced(t, file)
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file", len(packets))
	}
	names := []string{"shot", "stolen", "unspec", "77", "ok", "ok"}
	for i, frame := range frames {
		entry, exit := packets[2*i], packets[2*i+1]
		if entry.Hook != "fentry" || exit.Hook != "fexit" || entry.Id != exit.Id || entry.Verdict != -1 || exit.Verdict != -1 {
			t.Fatalf("packet %d: %+v, %+v", i, entry, exit)
		}
		if diff := cmp.Diff(frame, entry.Data); diff != "" {
			t.Errorf("entry %d: %s", i, diff)
		}
		want := frame
		if names[i] == "ok" { // rewritten
			want = testnet.VLAN(frame, 7)
			want[6] ^= 0x40
			want = want[:len(frame)+4]
		}
		if diff := cmp.Diff(want, exit.Data); diff != "" {
			t.Errorf("exit %d: %s", i, diff)
		}
		if !strings.Contains(fmt.Sprint(exit.Comments), "tc verdict "+names[i]) {
			t.Errorf("exit %d: comments %q, want %s", i, exit.Comments, names[i])
		}
	}
	direction := "in"
	if isEgress {
		direction = "out"
	}
	lines := systest.MustRead(t, file, "--format", "json", "-w", "-")
	if got, want := strings.Count(lines, `"direction":"`+direction+`"`), 2*len(frames); got != want {
		t.Errorf("%d packets have the direction %s, want %d", got, direction, want)
	}
	for _, verdict := range names {
		if !strings.Contains(lines, `"verdict":"`+verdict+`"`) {
			t.Errorf("no line of JSON has the verdict %s: %s", verdict, lines)
		}
		if plain := systest.MustRead(t, file); !strings.Contains(plain, name+":rewriting_tc_target@exit["+strings.ToUpper(verdict)+"] IP") {
			t.Errorf("no line has the verdict %s: %s", verdict, plain)
		}
	}

	p = systest.Listening(t, ns, nil, append(args, "--verdict", "drop,TC_ACT_STOLEN", "-w", file, "udp")...)
	sendRound(t, pair, isEgress)
	if s := systest.Account(t, p.Interrupt()); s.Seen != n || s.Captured != 2 || s.FilteredOut != n-2 {
		t.Errorf("with --verdict: summary %+v", s)
	}
	p = systest.Listening(t, ns, nil, append(args, "--rx-capture", "exit", "--filter-at", "exit", "-w", file, "vlan 7 and udp port 53")...)
	sendRound(t, pair, isEgress)
	if s := systest.Account(t, p.Interrupt()); s.Seen != n || s.Captured != 1 {
		t.Errorf("filtered at the exit: summary %+v", s)
	}
}

// The error says what is there instead.
func TestAtTCErrors(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, ns, name := mustAtTC(t, pair, testnet.AtTC, false, true)
	program := fmt.Sprintf("rewriting_tc_target (id %s)", systest.ProgramID(t, target))
	for _, test := range []struct{ args, want string }{
		{"--program another", "program another: rx0 does not run it; at XDP it runs no program, at tc " + program},
		{"--program rewriting_tc_target --verdict tx", "program " + program + " runs at tc, and returns unspec, ok, reclassify, shot"},
		{"--program rewriting_tc_target --sample drop=1,pass=10", "does not return verdicts of XDP"},
		{"--program rewriting_tc_target --rx-capture entry,exit --verdict shot", "its entries do not wait for them: --rx-capture exit"},
		{"--program rewriting_tc_target --count", "counters beside the packets count whole XDP programs"},
		{"--program rewriting_tc_target/nothing", "program " + program + " has no function nothing: none of its functions does"},
		{"--verdict shot", "--verdict shot: only programs at tc return that: choose one with --program NAME or ID"},
		{"--verdict shout", "must be aborted, drop, pass, tx, redirect, or a number; of a program at tc unspec, ok,"},
	} {
		status, stderr := systest.Start(t, ns, nil, append(strings.Fields(test.args), "-i", name, "-w", os.DevNull)...).Wait()
		systest.OneLine(t, status, stderr, test.want)
	}
}

// A capture ends when the program has left tc of the interface.
func TestAtTCLeaves(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	t.Run("tcx", func(t *testing.T) { testAtTCLeaves(t, false) })
	t.Run("clsact", func(t *testing.T) { testAtTCLeaves(t, true) })
}

func testAtTCLeaves(t *testing.T, isFilter bool) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, ns, name := mustAtTC(t, pair, testnet.AtTC, false, isFilter)
	p := systest.Listening(t, ns, nil, "-i", name, "--program", systest.ProgramID(t, target), "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	testnet.Must(t, errors.Join(target.Close(), removeClsact(ns, name)))
	systest.CheckBlind(t, p, "rx0 is no longer captured: program rewriting_tc_target (id ", "has left tc of rx0")
	if s := systest.Account(t, p.Stderr()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// What a program at tc calls by tail calls cannot be traced itself: its tracer is not called. The
// error says so, and what can be traced: the exit of the program that calls it, and its functions.
func TestTailCallAtTC(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	calling, ns, name := mustAtTC(t, pair, testnet.CallingAtTC, false, true)
	called, err := testnet.NewTarget(testnet.CalledAtTC)
	testnet.Must(t, err)
	defer called.Close()
	testnet.Must(t, calling.CallsAtTC().Put(uint32(0), called.Program()))
	traced := countCalls(t, called.Program(), "called_tc_target")
	frames := [][]byte{testnet.UDPFrame(100, 0), testnet.UDPFrame(300, 1)}
	for _, test := range []struct{ args, want string }{
		{"--program calling_tc_target --rx-capture exit", "[OK] [SHOT]"},
		{"--program called_tc_target/judge_at_tc --rx-capture exit", "[returned 0] [returned 2]"},
	} {
		file := systest.TempFile(t)
		p := systest.Listening(t, ns, nil, append(strings.Fields(test.args), "-i", name, "-w", file, "--json")...)
		testnet.Send(t, pair, frames...)
		if s := systest.Account(t, p.Interrupt()); s.Seen != 2 || s.Captured != 2 {
			t.Errorf("%s: summary %+v", test.args, s)
		}
		var got []string
		for line := range strings.Lines(systest.MustRead(t, file)) {
			_, after, _ := strings.Cut(line, "@exit")
			verdict, _, _ := strings.Cut(after, " IP")
			got = append(got, verdict)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
	if n := traced(); n != 0 {
		t.Errorf("the kernel has called the tracer of a program that is called by tail calls %d times: it can be traced", n)
	}
	for _, which := range []string{"called_tc_target", systest.ProgramID(t, called)} {
		status, stderr := systest.Start(t, ns, nil, "-i", name, "--program", which, "-w", os.DevNull).Wait()
		systest.OneLine(t, status, stderr, fmt.Sprintf("program called_tc_target (id %s) is reached by tail calls of calling_tc_target (id %s), which jump past",
			systest.ProgramID(t, called), systest.ProgramID(t, calling)), "or a function: called_tc_target/judge_at_tc")
	}
}

// countCalls traces a function of a program, and returns how often the kernel has called the
// tracer.
func countCalls(t *testing.T, prog *ebpf.Program, function string) func() uint64 {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	testnet.Must(t, err)
	t.Cleanup(func() { counts.Close() })
	tracer, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_calls", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTarget: prog, AttachTo: function, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, counts.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	testnet.Must(t, err)
	t.Cleanup(func() { tracer.Close() })
	l, err := link.AttachTracing(link.TracingOptions{Program: tracer})
	testnet.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return func() (n uint64) {
		testnet.Must(t, counts.Lookup(uint32(0), &n))
		return n
	}
}

// removeClsact removes the qdisc clsact of an interface, with all its filters, if there is one.
func removeClsact(ns *testnet.Namespace, ifname string) error {
	return ns.Do(func() error {
		l, err := netlink.LinkByName(ifname)
		if err != nil {
			return err
		}
		err = netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		}})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}
