package meter

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Bench itself fails if what was counted is not what was sent. The speed is not tested.
func TestBench(t *testing.T) {
	testnet.RequireRoot(t)
	cpus := []int{0, 1}[:min(2, runtime.NumCPU())] // two threads on one CPU would lose packets: BPF_PROG_RUN can be preempted
	results, err := Bench(t.Context(), BenchOptions{Variants: Variants, CPUs: cpus, Duration: 20 * time.Millisecond, Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 4 {
		t.Fatalf("%d results", len(results))
	}
	for _, r := range results {
		if r.Packets == 0 || r.Ns <= 0 || r.Mpps <= 0 || r.HotPath == 0 || r.HotPath > r.Instructions {
			t.Errorf("%+v", r)
		}
		t.Logf("%s: %d instructions, at most %d for a common packet", r.Name, r.Instructions, r.HotPath)
		// The variants without a hash table must stay below 50 instructions.
		if r.Name != "naive" && r.HotPath >= 50 {
			t.Errorf("%s: %d instructions for a common packet", r.Name, r.HotPath)
		}
	}
}

// Packets that were not counted, were counted twice or as another class are an error.
func TestBenchVerify(t *testing.T) {
	testnet.RequireRoot(t)
	s, err := newSubject("ultra")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.repeat = 10
	if err := s.round([]int{0}); err != nil {
		t.Fatal(err)
	}
	if err := s.verify(); err != nil {
		t.Error(err)
	}
	s.sent[IPv4(6)] = Tally{11, 600}
	if err := s.verify(); err == nil {
		t.Error("a packet too few, and no error")
	}
	delete(s.sent, IPv4(6))
	if err := s.verify(); err == nil {
		t.Error("a packet that nobody sent, and no error")
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

// The longest path leaves out paths that call other functions, which only rare packets take.
func TestLongestPath(t *testing.T) {
	jump := func(off int16) asm.Instruction {
		i := asm.JEq.Imm(asm.R1, 0, "")
		i.Offset = off
		return i
	}
	call := asm.Call.Label("")
	call.Constant = 0
	call.Offset = 3 // the distance to the function behind the exit, in the form the kernel shows
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
