package trace_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The entry has the original packet, and the exit the result with its verdict, and both have the
// same packet id. The target works as without a capture.
func TestEntryAndExit(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) { testEntryAndExit(t, transport) })
	}
}

func testEntryAndExit(t *testing.T, transport string) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", file, "--json", "--transport", transport)
	frames := systest.SendRound(t, pair)
	n := uint64(len(frames))
	s := systest.Account(t, p.Interrupt())
	if s.Seen != 2*n || s.Captured != 2*n || len(s.Interfaces) != 2 {
		t.Fatalf("summary %+v", s)
	}
	for i, hook := range []string{"entry", "exit"} {
		own := s.Interfaces[i]
		if own.Interface != "rx0" || own.Hook != hook || own.Program != "rewriting_target_program" || own.ProgramID == 0 || own.Captured != n {
			t.Errorf("source %d: %+v", i, own)
		}
	}
	if !strings.Contains(p.Stderr(), "rx0: XDP program rewriting_target_program (id ") {
		t.Errorf("the program is not named: %s", p.Stderr())
	}
	if got, want := systest.Verdicts(t, target), [6]uint64{1, 1, 2, 1, 0, 1}; got != want {
		t.Errorf("the target's own counters are %v, want %v", got, want)
	}
	packets := systest.ReadTraced(t, file)
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file", len(packets))
	}
	for i, frame := range frames {
		entry, exit := packets[2*i], packets[2*i+1]
		if entry.Hook != "fentry" || exit.Hook != "fexit" || entry.Id != exit.Id || entry.Verdict != -1 {
			t.Fatalf("packet %d: %+v, %+v", i, entry, exit)
		}
		if diff := cmp.Diff(frame, entry.Data); diff != "" {
			t.Errorf("entry %d:\n%s", i, diff)
		}
		want := frame
		if systest.Answers[i].Verdict == 2 { // rewritten
			want = testnet.VLAN(frame, 7)
			want[6] ^= 0x40
			want = want[:len(frame)+4]
		}
		if diff := cmp.Diff(want, exit.Data); diff != "" {
			t.Errorf("exit %d:\n%s", i, diff)
		}
		if exit.Verdict != systest.Answers[i].Verdict {
			t.Errorf("exit %d: verdict %d, want %d", i, exit.Verdict, systest.Answers[i].Verdict)
		}
	}
	if systest.Attached(t, pair) != "rewriting_target_program" {
		t.Error("the target is gone")
	}
}

// Each entry among many packets has exactly one exit.
func TestPairs(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	file := systest.TempFile(t)
	sent := testnet.Volume(30_000)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", file, "--json", "-B", systest.RingFor(2*sent, 60))
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(60, 0), Count: sent, Rate: 5000})
	s := systest.Account(t, p.Interrupt())
	frames := int(arrived)
	if s.Seen != 2*arrived || s.Captured != 2*arrived {
		t.Errorf("%d seen, %d captured, want %d", s.Seen, s.Captured, 2*arrived)
	}
	entries, exits := map[uint64]uint64{}, map[uint64]uint64{}
	for _, packet := range systest.ReadTraced(t, file) {
		seq, _ := testnet.Sequence(packet.Data)
		if packet.Hook == "fentry" {
			entries[packet.Id] = seq
		} else {
			exits[packet.Id] = seq
		}
	}
	if len(entries) != frames {
		t.Errorf("%d entries with different ids", len(entries))
	}
	if diff := cmp.Diff(entries, exits); diff != "" {
		t.Error(diff[:min(1000, len(diff))])
	}
}

// The filter matches the packet at the entry, or with --filter-at exit the packet at the exit.
// --verdict keeps only packets with these verdicts. The account adds up.
func TestTraceChoices(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	for i, test := range []struct {
		args string
		want []int64 // verdicts; -1 = an entry
	}{
		{"", []int64{-1, -1, -1, -1, -1, -1}},
		{"--rx-capture exit", []int64{1, 0, 3, 77, 2, 2}},
		{"--verdict drop,aborted", []int64{1, 0}},
		{"--rx-capture exit --verdict XDP_PASS,77", []int64{77, 2, 2}},
		{"--verdict 100,63,64", nil},
		{"--verdict 77,100", []int64{77}},
		{"--verdict pass --max-rate 1", []int64{2}},
		{"--rx-capture entry,exit --verdict tx udp port 11", []int64{-1, 3}},
		{"udp port 53", []int64{-1}},
		{"--rx-capture exit udp port 53 or udp port 9", []int64{1, 2}},
		{"--rx-capture exit vlan", nil},
		{"--filter-at exit vlan", []int64{2, 2}},
		{"--rx-capture exit --filter-at exit vlan and udp port 443", []int64{2}},
		{"--rx-capture exit --filter-at exit --verdict drop vlan", nil},
		{"--rx-capture exit ether[len - 1] == 0", []int64{1, 0, 3, 77, 2, 2}}, // computed offset
		{"--rx-capture entry,exit --first 1", []int64{-1, 1, -1, 0, -1, 3, -1, 77, -1, 2, -1, 2}},
		{"--rx-capture entry,exit --max-rate 1", []int64{-1, 1}},
		{"--program rewriting_target_program udp port 53", []int64{-1}},
		{"--program all udp port 53", []int64{-1}},
		{"-s 20 udp port 53", []int64{-1}},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.args, func(t *testing.T) {
			file := systest.TempFile(t)
			var s systest.Summary
			testnet.WaitFor(t, "a round within a second", func() bool {
				p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", pair.RxName, "-w", file, "--json")...)
				began := time.Now()
				systest.SendRound(t, pair)
				took := time.Since(began)
				s = systest.Account(t, p.Interrupt())
				return took < time.Second || !strings.Contains(test.args, "--max-rate") // keeps one more packet each second
			})
			var got []int64
			for _, packet := range systest.ReadTraced(t, file) {
				got = append(got, packet.Verdict)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			hooks := uint64(len(s.Interfaces))
			if s.Captured != uint64(len(test.want)) || s.Seen != hooks*uint64(len(systest.Answers)) {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// If only exits are recorded, sampling chooses among packets with a wanted verdict, and does not
// count other packets.
func TestVerdictThenSampling(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	systest.CheckVerdictThenSampling(t, pair, "-i", pair.RxName)
}

// After kill -9 the target is still attached and counts, and no tracer is left on it, so that the
// next capture can attach.
func TestTraceKilled(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	defer systest.Trickle(t, pair)()
	times := 3
	if testnet.Emulated() {
		times = 1
	}
	for i := range times {
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", os.DevNull)
		p.Cmd.Process.Kill()
		<-p.Done
		before := systest.Verdicts(t, target)
		testnet.WaitFor(t, fmt.Sprintf("the target to count on, %d", i), func() bool { return systest.Verdicts(t, target) != before })
	}
	if systest.Attached(t, pair) != "rewriting_target_program" {
		t.Error("the target is gone")
	}
}

// Behind a dispatcher each program can be selected by name or id. Without a selection the error
// lists them.
func TestDispatcher(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	var ids [3]string
	for i := range ids {
		id, err := d.ID(i)
		testnet.Must(t, err)
		ids[i] = fmt.Sprint(id)
	}
	names := testnet.DispatcherComponents

	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).Wait()
	systest.OneLine(t, status, stderr, fmt.Sprintf("rx0 runs several XDP programs: %s (id %s), %s (id %s), %s (id %s): choose with --program NAME, ID or all",
		names[0], ids[0], names[1], ids[1], names[2], ids[2]))

	for i, test := range []struct {
		args []string
		want []string // hooks of one packet
	}{
		{[]string{"--program", names[1]}, []string{names[1] + "@fentry"}},
		{[]string{"--program", ids[0], "--program", ids[2]}, []string{names[0] + "@fentry", names[2] + "@fentry"}},
		{[]string{"--program", "all", "--rx-capture", "exit"}, []string{names[0] + "@fexit", names[1] + "@fexit", names[2] + "@fexit"}},
		{[]string{"--program", names[2], "--verdict", "drop"}, []string{names[2] + "@fexit"}},
		{[]string{"--program", names[2], "--verdict", "pass"}, nil},
	} {
		if !testnet.Shared(i) {
			continue
		}
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Rx, nil, append(test.args, "-i", pair.RxName, "-w", file, "--json")...)
		testnet.Send(t, pair, testnet.UDPFrame(64, 0))
		systest.Account(t, p.Interrupt())
		records, r := systest.ReadFile(t, file)
		var got []string
		for _, rec := range records {
			ifi, err := r.Interface(rec.CI.InterfaceIndex)
			testnet.Must(t, err)
			got = append(got, strings.TrimPrefix(ifi.Name, "rx0:"))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v: %s", test.args, diff)
		}
	}
}

// Programs that run one after the other keep the same packets of a flow. A packet has one id at a
// program's entry and exit, and another id at the next program.
func TestDispatcherFirst(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustDispatcher(t, pair)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--program", "all", "--rx-capture", "entry,exit", "--first", "2", "--json")
	systest.SendNumbered(t, pair, 4, 64)
	components := uint64(len(testnet.DispatcherComponents))
	if s := systest.Account(t, p.Interrupt()); s.Seen != 2*4*components || s.Captured != 2*2*components {
		t.Errorf("summary %+v", s)
	}
	hooks := map[uint64]string{} // by id
	packets := map[uint64]int{}  // by sequence number
	for _, packet := range systest.ReadTraced(t, file) {
		hooks[packet.Id] += packet.Hook
		sequence, _ := testnet.Sequence(packet.Data)
		packets[sequence]++
	}
	if len(hooks) != 2*int(components) {
		t.Errorf("%d different ids of 2 packets", len(hooks))
	}
	for id, at := range hooks {
		if at != "fentryfexit" {
			t.Errorf("the packet id %x is at %s, want at one fentry and one fexit", id, at)
		}
	}
	if diff := cmp.Diff(map[uint64]int{0: 6, 1: 6}, packets); diff != "" {
		t.Errorf("packets kept: %s", diff)
	}
}

// A program that another program has replaced does not run itself. The other program is named, and
// traced in its place.
func TestReplacedMain(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	id := replaceMain(t, target.Program(), testnet.DispatcherComponents[0])
	want := fmt.Sprintf("does not run itself: program %s (id %d) has taken its place (freplace): trace that one, with --program and its id",
		testnet.DispatcherComponents[0], id)
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).Wait()
	systest.OneLine(t, status, stderr, want)
	if status, stdout, _ := systest.Probe(t, pair, "-i", pair.RxName, "--json"); status != 1 || !strings.Contains(stdout, "has taken its place (freplace)") {
		t.Errorf("probe: exit status %d: %s", status, stdout)
	}
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", fmt.Sprint(id), "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	systest.DetachLink(t, pair)
	systest.CheckBlind(t, p, "rx0 is no longer captured: XDP program "+testnet.DispatcherComponents[0]+" (id ", "has left rx0")
	if s := systest.Account(t, p.Stderr()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// If a program makes a tail call, its exit is that of the program called. A tracer of the called
// program is not called, because the call jumps past the place where tracers attach: the error says
// so.
func TestTailCall(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	called, err := testnet.NewTarget(testnet.Rewriting)
	testnet.Must(t, err)
	defer called.Close()
	testnet.Must(t, target.Hook().Put(uint32(xdp.Pass), called.Program()))
	traced := countCalls(t, called.Program(), "rewriting_target_program")
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"--rx-capture", "entry,exit"}, 2},
		{[]string{"--rx-capture", "entry,exit", "--verdict", "pass"}, 2}, // by the called program
		{[]string{"--rx-capture", "entry", "--verdict", "drop"}, 0},
		{[]string{"--rx-capture", "exit", "--filter-at", "exit", "vlan"}, 1}, // by the called program
	} {
		p := systest.Listening(t, pair.Rx, nil, append(test.args, "-i", pair.RxName, "-w", os.DevNull, "--json")...)
		testnet.Send(t, pair, testnet.UDPFrame(64, 0))
		if s := systest.Account(t, p.Interrupt()); s.Captured != uint64(test.want) {
			t.Errorf("%v: %d packets, want %d", test.args, s.Captured, test.want)
		}
	}
	if systest.Verdicts(t, called)[xdp.Pass] != 4 { // one for each round
		t.Error("the program was not called")
	}
	if n := traced(); n != 0 {
		t.Errorf("the kernel has called the tracer of a program that is called by tail calls %d times: it can be traced", n)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "--program", systest.ProgramID(t, called), "-w", os.DevNull).Wait()
	systest.OneLine(t, status, stderr, "program rewriting_target_program (id "+systest.ProgramID(t, called)+") is reached by tail calls of hooked_target_frags (id ",
		"which jump past the place where the kernel calls tracers: trace the exit of the program that is attached")
}

// A second xdpcap on an interface traces the program of the first.
func TestTraceAnotherXdpcap(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
	second := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
	third := systest.Listening(t, pair.Rx, nil, "stats", "-i", pair.RxName, "--json")
	frames := [][]byte{testnet.UDPFrame(64, 0), testnet.UDPFrame(64, 1)}
	testnet.Send(t, pair, frames...)
	for _, p := range []*systest.Process{third, second} {
		p.Interrupt()
	}
	first.Interrupt()
	for _, p := range []*systest.Process{first, second} {
		if s := systest.Account(t, p.Stderr()); int(s.Seen) != len(frames) || s.Captured != s.Seen {
			t.Errorf("%v: %+v", p.Cmd.Args[1:], s.AccountKeys)
		}
	}
}
