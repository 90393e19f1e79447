package meter

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The variants without a hash table stay below 50 instructions for a common packet.
func TestHotPath(t *testing.T) {
	t.Parallel()
	for _, v := range Variants {
		b := newCountBench(t, ProtocolsOptions{Variant: v})
		all, hot, err := instructions(b.prog)
		must(t, err)
		t.Logf("%v: %d instructions, at most %d for a common packet", v, all, hot)
		if hot == 0 || hot > all || v != Naive && hot >= 50 {
			t.Errorf("%v: %d instructions for a common packet", v, hot)
		}
	}
}

// instructions counts the instructions of a loaded program after the verifier's changes. all is
// their number; hot is the most that one packet can run without calling another BPF function, or 0
// if there is a loop. A helper call counts as one instruction.
func instructions(prog *ebpf.Program) (all, hot int, err error) {
	info, err := prog.Info()
	if err != nil {
		return 0, 0, err
	}
	insns, err := info.Instructions()
	if err != nil {
		return 0, 0, fmt.Errorf("read the instructions of %s: %w", info.Name, err)
	}
	return len(insns), longestPath(insns), nil
}

// longestPath returns the length of the longest path through the main function, 0 if there is a
// loop. It goes backwards: the path from an instruction is one longer than the longest path from
// its successors.
func longestPath(insns asm.Instructions) int {
	const never = -1 << 30  // marks paths that call another function; they do not count
	at := make(map[int]int) // longest path by position; a position counts 8-byte units
	main, position := mainFunction(insns)
	for i := len(main) - 1; i >= 0; i-- {
		ins := main[i]
		next := position
		position -= int(ins.Size() / asm.InstructionSize)
		target := next + int(ins.Offset)
		isJump := ins.OpCode.Class().IsJump()
		switch op := ins.OpCode.JumpOp(); {
		case isJump && op == asm.Exit:
			at[position] = 1
		case isJump && op == asm.Call && ins.IsFunctionCall():
			at[position] = never
		case !isJump || op == asm.Call:
			at[position] = 1 + at[next]
		case target <= position:
			return 0
		case op == asm.Ja:
			at[position] = 1 + at[target]
		default:
			at[position] = 1 + max(at[next], at[target])
		}
	}
	return at[0]
}

// mainFunction returns the instructions before the first other function, and their size in units of
// 8 bytes.
func mainFunction(insns asm.Instructions) (main asm.Instructions, size int) {
	first := 1 << 30 // position of the first other function
	position := 0
	for i, ins := range insns {
		if position >= first {
			return insns[:i], position
		}
		position += int(ins.Size() / asm.InstructionSize)
		if ins.IsFunctionCall() {
			// In a compiled program, Offset is the distance and Constant is the function's number.
			distance := int(ins.Offset)
			if distance == 0 {
				distance = int(ins.Constant)
			}
			first = min(first, position+distance)
		}
	}
	return insns, position
}

// The longest path omits paths that call other functions, which only rare packets take.
func TestLongestPath(t *testing.T) {
	t.Parallel()
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
