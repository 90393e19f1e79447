package main_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func attachTarget(t *testing.T, pair *testnet.Pair, kind testnet.TargetKind) *testnet.Target {
	t.Helper()
	target, err := testnet.AttachTarget(pair.Rx, pair.RxName, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func verdicts(t *testing.T, target *testnet.Target) [xdp.VerdictSlots]uint64 {
	t.Helper()
	v, err := target.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func programID(t *testing.T, target *testnet.Target) string {
	t.Helper()
	info, err := target.Program().Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return fmt.Sprint(id)
}

// A traced is a packet in a file with what pcapng says of it.
type traced struct {
	data    []byte
	id      uint64
	verdict int64 // -1 = none
	hook    string

	comments []string
}

func readTraced(t *testing.T, path string) []traced {
	t.Helper()
	_, r := openFile(t, path)
	var all []traced
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if err != nil {
			return all
		}
		ifi, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		p := traced{data: data, verdict: -1, hook: ifi.Name[strings.LastIndex(ifi.Name, "@")+1:], comments: opts.Comments}
		if opts.PacketID != nil {
			p.id = *opts.PacketID
		}
		for _, v := range opts.Verdicts {
			if v.Type == pcapgo.NgEpbVerdictTypeLinuxeBPFXDP && len(v.Data) == 8 {
				p.verdict = int64(v.Data[0]) | int64(v.Data[1])<<8
			}
		}
		all = append(all, p)
	}
}

// answers has the ports of a round of frames, and what the target answers to each.
var answers = []struct {
	port    uint16
	verdict int64
}{{9, 1}, {10, 0}, {11, 3}, {12, int64(testnet.NoVerdict)}, {53, 2}, {443, 2}}

func sendRound(t *testing.T, pair *testnet.Pair) (frames [][]byte) {
	t.Helper()
	for _, a := range answers {
		frames = append(frames, testnet.TxToRx().UDP(1000, a.port, []byte("payload")))
	}
	testnet.Send(t, pair, frames...)
	return frames
}

// The entry shows the original packet, and the exit the result with its verdict, and both have the
// same packet id. The target works as it does without a capture.
func TestEntryAndExit(t *testing.T) {
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) { testEntryAndExit(t, transport) })
	}
}

func testEntryAndExit(t *testing.T, transport string) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.Rewriting)
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", file, "--json", "--transport", transport)
	frames := sendRound(t, pair)
	stderr := p.interrupt()
	n := uint64(len(frames))
	s := account(t, stderr)
	if s.Seen != 2*n || s.Captured != 2*n || len(s.Interfaces) != 2 {
		t.Fatalf("summary %+v", s)
	}
	for i, hook := range []string{"entry", "exit"} {
		own := s.Interfaces[i]
		if own.Interface != "rx0" || own.Hook != hook || own.Program != "rewriting_target_program" || own.ProgramID == 0 || own.Captured != n {
			t.Errorf("source %d: %+v", i, own)
		}
	}
	if !strings.Contains(stderr, "rx0: XDP program rewriting_target_program (id ") {
		t.Errorf("the program is not named: %s", stderr)
	}
	if got, want := verdicts(t, target), [6]uint64{1, 1, 2, 1, 0, 1}; got != want {
		t.Errorf("the target's own counters are %v, want %v", got, want)
	}
	packets := readTraced(t, file)
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file", len(packets))
	}
	for i, frame := range frames {
		entry, exit := packets[2*i], packets[2*i+1]
		if entry.hook != "fentry" || exit.hook != "fexit" || entry.id != exit.id || entry.verdict != -1 {
			t.Fatalf("packet %d: %+v, %+v", i, entry, exit)
		}
		if diff := cmp.Diff(frame, entry.data); diff != "" {
			t.Errorf("entry %d:\n%s", i, diff)
		}
		want := frame
		if answers[i].verdict == 2 { // rewritten
			want = testnet.VLAN(frame, 7)
			want[6] ^= 0x40
			want = want[:len(frame)+4]
		}
		if diff := cmp.Diff(want, exit.data); diff != "" {
			t.Errorf("exit %d:\n%s", i, diff)
		}
		if exit.verdict != answers[i].verdict {
			t.Errorf("exit %d: verdict %d, want %d", i, exit.verdict, answers[i].verdict)
		}
	}
	if attached(t, pair) != "rewriting_target_program" {
		t.Error("the target is gone")
	}
}

// Among many packets, too, each entry has exactly one exit.
func TestPairs(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	attachTarget(t, pair, testnet.Rewriting)
	file := tempFile(t)
	sent := testnet.Volume(30_000)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", file, "--json", "-B", ringFor(2*sent, 60))
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(60, 0), Count: sent, Rate: 5000})
	s := account(t, p.interrupt())
	frames := int(arrived)
	if s.Seen != 2*arrived {
		t.Errorf("%d seen, want %d", s.Seen, 2*arrived)
	}
	if s.Captured != 2*arrived {
		t.Errorf("%d captured, want %d", s.Captured, 2*arrived)
	}
	entries, exits := map[uint64]uint64{}, map[uint64]uint64{}
	for _, packet := range readTraced(t, file) {
		seq, _ := testnet.Sequence(packet.data)
		if packet.hook == "fentry" {
			entries[packet.id] = seq
		} else {
			exits[packet.id] = seq
		}
	}
	if len(entries) != frames {
		t.Errorf("%d entries with different ids", len(entries))
	}
	if diff := cmp.Diff(entries, exits); diff != "" {
		t.Error(diff[:min(1000, len(diff))])
	}
}

// The filter looks at the packet that goes in, or with --filter-at exit at the one that comes out.
// --verdict keeps only packets with these verdicts. The account adds up.
func TestTraceChoices(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	attachTarget(t, pair, testnet.Rewriting)
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
			file := tempFile(t)
			var s summary
			testnet.WaitFor(t, "a round within a second", func() bool {
				p := listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", pair.RxName, "-w", file, "--json")...)
				began := time.Now()
				sendRound(t, pair)
				took := time.Since(began)
				s = account(t, p.interrupt())
				return took < time.Second || !strings.Contains(test.args, "--max-rate") // keeps one more each second
			})
			var got []int64
			for _, packet := range readTraced(t, file) {
				got = append(got, packet.verdict)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			hooks := uint64(len(s.Interfaces))
			if s.Captured != uint64(len(test.want)) || s.Seen != hooks*uint64(len(answers)) {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// mixedFlow is one flow, whose packets the targets pass and drop, and none of the two alone:
// fragments, which are one flow whatever follows their IP header.
func mixedFlow(passed, dropped int) (frames [][]byte) {
	for i := range passed + dropped {
		port := uint16(53)
		if i >= passed {
			port = 9
		}
		frame := testnet.TxToRx().UDP(1000, port, []byte("payload"))
		frame[20] |= 0x20 // more fragments
		frames = append(frames, frame)
	}
	return frames
}

// If only exits are recorded, sampling chooses among packets with a wanted verdict: other packets
// do not count for it.
func TestVerdictThenSampling(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	attachTarget(t, pair, testnet.Rewriting)
	checkVerdictThenSampling(t, pair, "-i", pair.RxName)
}

// checkVerdictThenSampling captures the packets that a target drops, while it passes most of them.
// where are the flags that name the target.
func checkVerdictThenSampling(t *testing.T, pair *testnet.Pair, where ...string) {
	t.Helper()
	const passed, dropped = 20, 5
	for _, test := range []struct {
		args        string
		least, most uint64 // packets captured
	}{
		{"--max-rate 1", 1, dropped},
		{"--sample 5", 0, 2}, // 1 of 5 on each CPU
		{"--first 3 udp or ip", 3, 3},
	} {
		args := slices.Concat([]string{"--verdict", "drop", "-w", os.DevNull, "--json"}, where, strings.Fields(test.args))
		p := listening(t, pair.Rx, nil, args...)
		testnet.Send(t, pair, mixedFlow(passed, dropped)...)
		s := account(t, p.interrupt())
		if s.Seen != passed+dropped || s.FilteredOut != passed || s.NotSampled != dropped-s.Captured {
			t.Errorf("%s: summary %+v", test.args, s)
		}
		if s.Captured < test.least || s.Captured > test.most {
			t.Errorf("%s: %d captured, want %d to %d", test.args, s.Captured, test.least, test.most)
		}
	}
}

// After kill -9 the target is still attached and counts, and no tracer is left on it, so that the
// next capture can attach.
func TestTraceKilled(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.Rewriting)
	defer trickle(t, pair)()
	times := 3
	if testnet.Emulated() {
		times = 1
	}
	for i := range times {
		p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", os.DevNull)
		p.cmd.Process.Kill()
		<-p.done
		before := verdicts(t, target)
		testnet.WaitFor(t, fmt.Sprintf("the target to count on, %d", i), func() bool { return verdicts(t, target) != before })
	}
	if attached(t, pair) != "rewriting_target_program" {
		t.Error("the target is gone")
	}
}

// Behind a dispatcher each program can be chosen, by name or id. Without a choice the error lists
// them.
func TestDispatcher(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	var ids [3]string
	for i := range ids {
		id, err := d.ID(i)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = fmt.Sprint(id)
	}
	names := testnet.DispatcherComponents

	status, stderr := start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).wait()
	want := fmt.Sprintf("rx0 runs several XDP programs: %s (id %s), %s (id %s), %s (id %s): choose with --program NAME, ID or all",
		names[0], ids[0], names[1], ids[1], names[2], ids[2])
	if status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", status, stderr)
	}

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
		file := tempFile(t)
		p := listening(t, pair.Rx, nil, append(test.args, "-i", pair.RxName, "-w", file, "--json")...)
		testnet.Send(t, pair, testnet.UDPFrame(64, 0))
		account(t, p.interrupt())
		records, r := readFile(t, file)
		var got []string
		for _, rec := range records {
			ifi, err := r.Interface(rec.ci.InterfaceIndex)
			if err != nil {
				t.Fatal(err)
			}
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
	testnet.LeaveTo(t, "6.12")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustDispatcher(t, pair)
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--program", "all", "--rx-capture", "entry,exit", "--first", "2", "--json")
	for i := range uint64(4) {
		testnet.Send(t, pair, testnet.UDPFrame(64, i))
	}
	components := uint64(len(testnet.DispatcherComponents))
	if s := account(t, p.interrupt()); s.Seen != 2*4*components || s.Captured != 2*2*components {
		t.Errorf("summary %+v", s)
	}
	hooks := map[uint64]string{} // by id
	packets := map[uint64]int{}  // by sequence number
	for _, packet := range readTraced(t, file) {
		hooks[packet.id] += packet.hook
		sequence, _ := testnet.Sequence(packet.data)
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

// A program that another one has replaced does not run itself. The other one is named, and traced
// like the program itself would be.
func TestReplacedMain(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.Rewriting)
	id, err := target.ReplaceMain()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("does not run itself: program %s (id %d) has taken its place (freplace): trace that one, with --program and its id",
		testnet.DispatcherComponents[0], id)
	status, stderr := start(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull).wait()
	if status != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit status %d: %s, want ...%s", status, stderr, want)
	}
	if status, stdout, _ := probe(t, pair, "-i", pair.RxName, "--json"); status != 1 || !strings.Contains(stdout, "has taken its place (freplace)") {
		t.Errorf("probe: exit status %d: %s", status, stdout)
	}
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--program", fmt.Sprint(id), "-w", os.DevNull, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(64, 0))
	detachLink(t, pair)
	checkBlind(t, p, "rx0 is no longer captured: XDP program "+testnet.DispatcherComponents[0]+" (id ", "has left rx0")
	if s := account(t, p.said()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
}

// Where a program makes a tail call, its exit is that of the program called. A tracer of the called
// program alone sees nothing, because the call jumps past the place where tracers attach.
// docs/tracing.md says so.
func TestTailCall(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.HookedFrags)
	called, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer called.Close()
	if err := target.Hook().Put(uint32(xdp.Pass), called.Program()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"--rx-capture", "entry,exit"}, 2},
		{[]string{"--rx-capture", "exit", "--filter-at", "exit", "vlan"}, 1}, // changed by the called one
		{[]string{"--program", programID(t, called)}, 0},
	} {
		p := listening(t, pair.Rx, nil, append(test.args, "-i", pair.RxName, "-w", os.DevNull, "--json")...)
		testnet.Send(t, pair, testnet.UDPFrame(64, 0))
		if s := account(t, p.interrupt()); s.Captured != uint64(test.want) {
			t.Errorf("%v: %d packets, want %d", test.args, s.Captured, test.want)
		}
	}
	if verdicts(t, called)[xdp.Pass] != 3 {
		t.Error("the program was not called")
	}
}

// A second xdpcap on an interface traces the program of the first.
func TestTraceAnotherXdpcap(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
	second := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json")
	third := listening(t, pair.Rx, nil, "stats", "-i", pair.RxName, "--json")
	frames := [][]byte{testnet.UDPFrame(64, 0), testnet.UDPFrame(64, 1)}
	testnet.Send(t, pair, frames...)
	for _, p := range []*process{third, second} {
		p.interrupt()
	}
	first.interrupt()
	for _, p := range []*process{first, second} {
		if s := account(t, p.said()); int(s.Seen) != len(frames) || s.Captured != s.Seen {
			t.Errorf("%v: %+v", p.cmd.Args[1:], s.AccountKeys)
		}
	}
}
