package meter

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Bench itself fails if what was counted is not what was sent. The speed is not tested.
func TestBench(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	testnet.RequireRoot(t)
	cpus := []int{0, 1}[:min(2, runtime.NumCPU())] // two threads on one CPU would lose packets: BPF_PROG_RUN can be preempted
	options := BenchOptions{Variants: BenchVariants, Sizes: true, Flows: true, Sample: 10, CPUs: cpus, Duration: 10 * time.Millisecond, Rounds: 1}
	results, err := Bench(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var got []BenchSubject
	for _, r := range results {
		got = append(got, r.BenchSubject)
		if r.Packets == 0 || r.Ns <= 0 || r.Mpps <= 0 || (r.HotPath == 0) != (r.Sizes || r.Flows != NoFlows) || r.HotPath > r.Instructions {
			t.Errorf("%+v", r)
		}
		t.Logf("%+v: %d instructions, at most %d for a common packet", r.BenchSubject, r.Instructions, r.HotPath)
		// The variants without a hash table must stay below 50 instructions.
		if r.Variant != Naive && r.HotPath >= 50 {
			t.Errorf("%+v: %d instructions for a common packet", r.BenchSubject, r.HotPath)
		}
	}
	want := []BenchSubject{{Empty: true},
		{Variant: Naive}, {Variant: Naive, Sizes: true}, {Variant: Naive, Flows: FewFlows}, {Variant: Naive, Flows: NewFlows}, {Variant: Naive, Sample: 10},
		{Variant: PerCPU}, {Variant: PerCPU, Sizes: true}, {Variant: PerCPU, Flows: FewFlows}, {Variant: PerCPU, Flows: NewFlows}, {Variant: PerCPU, Sample: 10},
		{Variant: Ultra}, {Variant: Ultra, Sizes: true}, {Variant: Ultra, Flows: FewFlows}, {Variant: Ultra, Flows: NewFlows}, {Variant: Ultra, Sample: 10},
		{Variant: Four}, {Variant: Four, Sample: 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// It is an error if packets are not counted, are counted twice or in another class, or if a sample
// is too small or too large.
func TestBenchVerify(t *testing.T) {
	testnet.RequireRoot(t)
	for _, b := range []BenchSubject{{Variant: Ultra}, {Variant: Ultra, Flows: NewFlows}, {Variant: Four}, {Variant: PerCPU, Sample: 2}, {Variant: Four, Sample: 2}} {
		s, err := newSubject(b)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		s.repeat = 1000
		if err := s.round([]int{0}); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(); err != nil {
			t.Errorf("%+v: %v", b, err)
		}
		sent := s.sent[IPv4(6)]
		for _, wrong := range []Tally{{sent.Packets / 2, sent.Bytes / 2}, {2 * sent.Packets, 2 * sent.Bytes}} {
			s.sent[IPv4(6)] = wrong
			if err := s.verify(); err == nil {
				t.Errorf("%+v: %+v were sent, as many as %+v were counted, and no error", b, sent, wrong)
			}
		}
		delete(s.sent, IPv4(6))
		if err := s.verify(); err == nil {
			t.Errorf("%+v: packets that nobody sent, and no error", b)
		}
	}
}

// four has its own counters for TCP, UDP and ICMP of IPv4, and counts everything else as other.
func TestBenchFour(t *testing.T) {
	testnet.RequireRoot(t)
	s, err := newSubject(BenchSubject{Variant: Four})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	want := make(map[string]Tally)
	for _, test := range protocolTable {
		if verdict, err := s.prog.Run(&ebpf.RunOptions{Data: test.packet, Repeat: 3}); err != nil || verdict != uint32(xdp.Pass) {
			t.Fatal(verdict, err)
		}
		name := other
		isPlain := binary.BigEndian.Uint16(test.packet[12:]) == 0x0800
		if isPlain && (test.class == IPv4(6) || test.class == IPv4(17) || test.class == IPv4(1)) {
			name = test.class.String()
		}
		addTally(want, name, Tally{Packets: 3})
		got, err := s.counted()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", test.name, diff)
		}
	}
}

func TestBenchStopped(t *testing.T) {
	testnet.RequireRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Bench(ctx, BenchOptions{CPUs: []int{0}, Duration: time.Millisecond, Rounds: 1}); err == nil {
		t.Error("no error")
	}
}

// The longest path omits paths that call other functions, which only rare packets take.
func TestLongestPath(t *testing.T) {
	jump := func(off int16) asm.Instruction {
		i := asm.JEq.Imm(asm.R1, 0, "")
		i.Offset = off
		return i
	}
	call := asm.Call.Label("")
	call.Constant = 0
	call.Offset = 3 // the distance to the function after the exit, in the form the kernel shows
	for _, test := range []struct {
		name  string
		insns asm.Instructions
		want  int
	}{
		{"straight", asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, 2},
		{"a long constant is one", asm.Instructions{asm.LoadImm(asm.R1, 1, asm.DWord), jump(1), asm.Mov.Imm(asm.R0, 2), asm.Return()}, 4},
		{"jump over", asm.Instructions{jump(2), asm.Mov.Imm(asm.R0, 1), asm.Mov.Imm(asm.R0, 2), asm.Return()}, 4},
		{"function", asm.Instructions{jump(3), asm.Mov.Imm(asm.R0, 1), call, asm.Mov.Imm(asm.R0, 2), asm.Return(),
			asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R0, 0), asm.Return()}, 2},
		{"loop", asm.Instructions{asm.Mov.Imm(asm.R0, 2), jump(-2), asm.Return()}, 0},
	} {
		if got := longestPath(test.insns); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
