package trace_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// mustAtTC attaches a target where the sending interface of a pair sends, or its receiving one
// receives, and returns the namespace and the interface. It skips the test if there is no tcx.
func mustAtTC(t *testing.T, pair *testnet.Pair, kind testnet.TargetKind, isEgress, isFilter bool) (*testnet.Target, *testnet.Namespace, string) {
	t.Helper()
	target, err := testnet.NewTarget(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	ns, name := pair.Rx, pair.RxName
	if isEgress {
		ns, name = pair.Tx, pair.TxName
	}
	err = target.AttachAtTC(ns, name, isEgress, isFilter)
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip("this kernel has no tcx")
	}
	if err != nil {
		t.Fatal(err)
	}
	return target, ns, name
}

// A program at tc has entries with the packets as they come, and exits with the packets as it
// leaves them, also a VLAN tag that is kept beside the packet, and with its verdicts.
func TestAtTC(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for i, test := range []struct {
		name               string
		isEgress, isFilter bool
		transport          string
	}{
		{"ingress by tcx", false, false, "ring"},
		{"egress by tcx", true, false, "perf"},
		{"ingress by clsact", false, true, "perf"},
		{"egress by clsact", true, true, "ring"},
	} {
		if !testnet.Shared(i / 2) {
			continue
		}
		t.Run(test.name, func(t *testing.T) { testAtTC(t, test.isEgress, test.isFilter, test.transport) })
	}
}

func testAtTC(t *testing.T, isEgress, isFilter bool, transport string) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	_, ns, name := mustAtTC(t, pair, testnet.AtTC, isEgress, isFilter)
	file := systest.TempFile(t)
	args := []string{"-i", name, "--program", "rewriting_tc_target", "--transport", transport, "--json"}
	p := systest.Listening(t, ns, nil, append(args, "--rx-capture", "entry,exit", "-w", file)...)
	frames := systest.SendRound(t, pair)
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
	systest.SendRound(t, pair)
	if s := systest.Account(t, p.Interrupt()); s.Seen != n || s.Captured != 2 || s.FilteredOut != n-2 {
		t.Errorf("with --verdict: summary %+v", s)
	}
	p = systest.Listening(t, ns, nil, append(args, "--rx-capture", "exit", "--filter-at", "exit", "-w", file, "vlan 7 and udp port 53")...)
	systest.SendRound(t, pair)
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
		{"--program rewriting_tc_target --count", "counters beside the packets count whole XDP programs"},
		{"--program rewriting_tc_target/nothing", "program " + program + " has no function nothing: none of its functions does"},
		{"--verdict shot", "rx0 runs no XDP program"},
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
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, ns, name := mustAtTC(t, pair, testnet.AtTC, false, false)
	p := systest.Listening(t, ns, nil, "-i", name, "--program", systest.ProgramID(t, target), "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	systest.CheckBlind(t, p, "rx0 is no longer captured: program rewriting_tc_target (id ", "has left tc of rx0")
	if s := systest.Account(t, p.Said()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}
