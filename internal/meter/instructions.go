package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

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
