package trace_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A function of a program has entries and exits of its own, with a verdict only if its type says
// so. Lines, JSON, Wireshark and `read` tell what it has returned.
func TestFunction(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Functions)
	for _, test := range []struct {
		function string
		lines    []string // what a line says of each packet's exit
		verdicts []int64
	}{
		{"judge_packet", []string{"[DROP]", "[ABORTED]", "[TX]", "[77]", "[PASS]", "[PASS]"}, []int64{1, 0, 3, 77, 2, 2}},
		{"measure_packet", []string{"[returned -22]", "[returned 180]", "[returned 180]", "[returned 180]", "[returned 180]", "[returned 180]"}, nil},
	} {
		t.Run(test.function, func(t *testing.T) {
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", "functions_target/"+test.function, "--rx-capture", "entry,exit", "-w", file, "--json")
			frames := systest.SendRound(t, pair)
			s := systest.Account(t, p.Interrupt())
			if n := uint64(2 * len(frames)); s.Seen != n || s.Captured != n || s.PassedBy != 0 {
				t.Errorf("summary %+v", s)
			}
			for i, hook := range []string{"entry", "exit"} {
				if own := s.Interfaces[i]; own.Hook != hook || own.Program != "functions_target/"+test.function {
					t.Errorf("source %d: %+v", i, own)
				}
			}
			var verdicts []int64
			for i, packet := range systest.ReadTraced(t, file) {
				if diff := cmp.Diff(frames[i/2], packet.Data); diff != "" {
					t.Errorf("packet %d: %s", i, diff)
				}
				if packet.Verdict >= 0 {
					verdicts = append(verdicts, packet.Verdict)
				}
			}
			if diff := cmp.Diff(test.verdicts, verdicts); diff != "" {
				t.Error(diff)
			}
			var lines []string
			for line := range strings.Lines(systest.MustRead(t, file)) {
				if _, after, isExit := strings.Cut(line, "rx0:functions_target/"+test.function+"@exit"); isExit {
					after, _, _ := strings.Cut(after, "IP ")
					lines = append(lines, strings.TrimSpace(after))
				}
			}
			if diff := cmp.Diff(test.lines, lines); diff != "" {
				t.Errorf("lines: %s", diff)
			}
		})
	}
}

// The error names the functions that can be traced.
func TestFunctionErrors(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Functions)
	program := fmt.Sprintf("functions_target (id %s)", systest.ProgramID(t, target))
	these := ": these can be traced: hash_port, judge_packet, measure_packet"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--program", "functions_target/judge"}, "program " + program + " has no function judge" + these},
		{[]string{"--program", "functions_target/double_port"},
			"function double_port of program " + program + " does not take the packet, struct xdp_md *, as its first argument" + these},
		{[]string{"--program", "functions_target/hash_port"}, "the compiler has changed its arguments"},
		{[]string{"--program", "functions_target/note_packet"}, "function note_packet of program " + program + " returns nothing"},
		{[]string{"--program", "functions_target/measure_packet", "--verdict", "drop"},
			"returns a number that is no verdict: its type is not enum xdp_action: omit --verdict"},
		{[]string{"--program", "functions_target/judge_packet", "--count"}, "counters beside the packets count whole XDP programs"},
		{[]string{"--program", "another/judge_packet"}, "program another: rx0 does not run it; it runs " + program},
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append(test.args, "-i", pair.RxName, "-w", os.DevNull)...).Wait()
		systest.OneLine(t, status, stderr, test.want)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "stats", "-i", pair.RxName, "--program", "functions_target/judge_packet").Wait()
	systest.OneLine(t, status, stderr, "program functions_target/judge_packet: only captures can be of a function: use program functions_target")
}
