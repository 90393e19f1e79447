package trace_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A program in an entry of a devmap or cpumap is traced by its id, on the interface that the
// packets came from. For a devmap that is not the interface that they are sent to.
func TestMapPrograms(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, test := range []struct {
		kind   testnet.TargetKind
		attach func(target *testnet.Target, pair, out *testnet.Pair) error
	}{
		{testnet.InDevmap, func(target *testnet.Target, pair, out *testnet.Pair) error {
			return target.AttachInDevmap(pair.Rx, pair.RxName, out.TxIndex)
		}},
		{testnet.InCPUMap, func(target *testnet.Target, pair, _ *testnet.Pair) error {
			return target.AttachInCPUMap(pair.Rx, pair.RxName)
		}},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			out := testnet.MustPair(t, testnet.PairOptions{Tx: pair.Rx, TxName: "out0", GRO: true})
			target, err := testnet.NewTarget(test.kind)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			if err := test.attach(target, pair, out); err != nil {
				t.Fatal(err)
			}
			traceMapProgram(t, pair, out, target)
		})
	}
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
