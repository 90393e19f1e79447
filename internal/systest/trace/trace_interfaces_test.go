package trace_test

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// traceAll runs every command that traces the program of an interface, and the monitor. The
// returned function ends them and returns how many packets each has counted; the monitor counts
// packets that the program aborts.
func traceAll(t *testing.T, pair *testnet.Pair, name string) func() map[string]uint64 {
	t.Helper()
	captured := systest.Listening(t, pair.Rx, nil, "-i", name, "--rx-capture", "entry,exit", "-w", os.DevNull, "--json")
	outputs := map[string]func() string{}
	for _, command := range []string{"stats", "count", "latency", "monitor"} {
		p, output := systest.Counting(t, pair, command, "-i", name, "--interval", "1s", "--json")
		outputs[command] = func() string { p.Interrupt(); return output() }
	}
	return func() map[string]uint64 {
		return map[string]uint64{
			"capture": systest.Account(t, captured.Interrupt()).Seen / 2, // at the entry and at the exit
			"stats":   systest.LastObject[systest.StatsReport](t, outputs["stats"]()).Total.Packets,
			"count":   systest.LastObject[systest.CountReport](t, outputs["count"]()).Total.Packets,
			"latency": systest.LastObject[systest.LatencyReport](t, outputs["latency"]()).Total.Runs,
			"monitor": abortedIn(systest.LastObject[systest.MonitorReport](t, outputs["monitor"]())),
		}
	}
}

func abortedIn(r systest.MonitorReport) (packets uint64) {
	for _, e := range r.Events {
		if e.Event == "xdp_exception" && e.Reason == "aborted" {
			packets += e.Drops
		}
	}
	return packets
}

// seenInRounds returns the counts of all commands after this many calls of sendRound.
func seenInRounds(n uint64) map[string]uint64 {
	packets := n * uint64(len(systest.Answers))
	return map[string]uint64{"capture": packets, "stats": packets, "count": packets, "latency": packets, "monitor": n}
}

// A program may run for several interfaces, which may have the same index in different network
// namespaces. Only packets that were received on the chosen one are counted.
func TestTraceOneOfSeveral(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	beside := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	elsewhere := testnet.MustPair(t, testnet.PairOptions{})
	if elsewhere.RxIndex != pair.RxIndex {
		t.Fatalf("the index is %d here and %d elsewhere: the test needs them equal", pair.RxIndex, elsewhere.RxIndex)
	}
	for _, other := range []*testnet.Pair{beside, elsewhere} {
		testnet.Must(t, target.AttachAlso(other.Rx, other.RxName))
	}
	seen := traceAll(t, pair, pair.RxName)
	for range 3 {
		systest.SendRound(t, beside)
		systest.SendRound(t, elsewhere)
	}
	systest.SendRound(t, pair)
	if diff := cmp.Diff(seenInRounds(1), seen()); diff != "" {
		t.Error(diff)
	}
}

// The program of a bond runs for packets received on the devices below, one of which may be a bond
// itself. All of them are the bond's packets; those of an interface that does not belong to the
// bond are not.
func TestTraceBond(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	second := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	other := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx2", TxName: "tx2"})
	testnet.MustBond(t, "bond1", pair)
	testnet.MustBond(t, "bond2", second)
	systest.InRx(t, pair, func(netlink.Link) error {
		upper, err := netlink.LinkByName("bond1")
		if err != nil {
			return err
		}
		lower, err := netlink.LinkByName("bond2")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetDown(lower); err != nil {
			return err
		}
		return netlink.LinkSetMaster(lower, upper)
	})
	target, err := testnet.AttachTarget(pair.Rx, "bond1", testnet.Rewriting)
	testnet.Must(t, err)
	defer target.Close()
	testnet.Must(t, target.AttachAlso(other.Rx, other.RxName))
	seen := traceAll(t, pair, "bond1")
	systest.SendRound(t, other)
	systest.SendRound(t, pair)
	systest.SendRound(t, second)
	if diff := cmp.Diff(seenInRounds(2), seen()); diff != "" {
		t.Error(diff)
	}
	if n := systest.Verdicts(t, target)[xdp.Pass]; n != 3*2 {
		t.Errorf("the target passed %d packets", n)
	}
}

// A program in an entry of a devmap or cpumap is traced by its id, on the interface that received
// the packets. For a devmap that is not the interface that they are sent to.
func TestMapPrograms(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, test := range []struct {
		kind  testnet.TargetKind
		in    ebpf.MapType
		value func(out *testnet.Pair) uint32 // of the map's entry, before the program
	}{
		{testnet.InDevmap, ebpf.DevMap, func(out *testnet.Pair) uint32 { return uint32(out.TxIndex) }},
		{testnet.InCPUMap, ebpf.CPUMap, func(*testnet.Pair) uint32 { return 256 }}, // packets
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			out := testnet.MustPair(t, testnet.PairOptions{Tx: pair.Rx, TxName: "out0", GRO: true})
			target, err := testnet.NewTarget(test.kind)
			testnet.Must(t, err)
			defer target.Close()
			attachInMap(t, pair, target.Program(), test.in, test.value(out))
			traceMapProgram(t, pair, out, target)
		})
	}
}

// attachInMap attaches a program to a pair's Rx that redirects every packet through the first entry
// of a map, where prog runs. The entry is a struct bpf_devmap_val or bpf_cpumap_val of linux/bpf.h:
// 32 bits, and the program.
func attachInMap(t *testing.T, pair *testnet.Pair, prog *ebpf.Program, kind ebpf.MapType, value uint32) {
	t.Helper()
	systest.InRx(t, pair, func(netlink.Link) error {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: kind, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		if err != nil {
			return err
		}
		defer m.Close() // the program keeps it alive
		if err := m.Put(uint32(0), [2]uint32{value, uint32(prog.FD())}); err != nil {
			return err
		}
		redirect, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name:  "redirect",
			Type:  ebpf.XDP,
			Flags: unix.BPF_F_XDP_HAS_FRAGS, // like the program in the map
			Instructions: asm.Instructions{
				asm.LoadMapPtr(asm.R1, m.FD()),
				asm.Mov.Imm(asm.R2, 0),
				asm.Mov.Imm(asm.R3, int32(xdp.Aborted)), // the verdict if there is no entry
				asm.FnRedirectMap.Call(),
				asm.Return(),
			},
			License: "Dual BSD/GPL",
		})
		if err != nil {
			return err
		}
		defer redirect.Close() // the link keeps it alive
		l, err := link.AttachXDP(link.XDPOptions{Program: redirect, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
}

func traceMapProgram(t *testing.T, pair, out *testnet.Pair, target *testnet.Target) {
	t.Helper()
	file := systest.TempFile(t)
	args := []string{"--program", systest.ProgramID(t, target), "--rx-capture", "entry,exit", "--json"}
	p := systest.Listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", file)...)
	elsewhere := systest.Listening(t, pair.Rx, nil, append(args, "-i", out.TxName, "-w", os.DevNull)...)
	frames := systest.SendRound(t, pair)
	want := [6]uint64{1, 1, 2, 1, 0, 1}
	testnet.WaitFor(t, "the program in the map to run", func() bool { return systest.Verdicts(t, target) == want })

	n := uint64(len(frames))
	systest.CountsOf(t, p, 2*n) // the program counts before its exit is traced
	if s := systest.Account(t, p.Interrupt()); s.Seen != 2*n || s.Captured != 2*n {
		t.Errorf("summary %+v", s)
	}
	if s := systest.Account(t, elsewhere.Interrupt()); s.Seen != 0 {
		t.Errorf("on %s: %+v", out.TxName, s)
	}
	packets := systest.ReadTraced(t, file)
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file", len(packets))
	}
	for i, frame := range frames {
		entry, exit := packets[2*i], packets[2*i+1]
		if entry.Hook != "fentry" || entry.Verdict != -1 || exit.Hook != "fexit" || exit.Verdict != systest.Answers[i].Verdict || entry.Id != exit.Id {
			t.Errorf("packet %d: %+v, %+v", i, entry, exit)
		}
		for _, p := range []systest.Traced{entry, exit} {
			if diff := cmp.Diff(frame, p.Data); diff != "" {
				t.Errorf("%s %d:\n%s", p.Hook, i, diff)
			}
		}
	}
}
