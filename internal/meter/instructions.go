package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// instructions counts those of a loaded program as the verifier left it: all of them, and the most
// that a packet can run through without leaving the main function. A helper that is called counts
// as one. hot is 0 where there is a loop.
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

// longestPath goes through the instructions backwards: each costs one more than the dearest of its
// successors.
func longestPath(insns asm.Instructions) int {
	const never = -1 << 30  // on a path that is not counted
	at := make(map[int]int) // cost by position, in units of the short instruction
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

// mainFunction is the instructions before the first other function, and their size in units of the
// short one.
func mainFunction(insns asm.Instructions) (main asm.Instructions, size int) {
	first := 1 << 30 // position of the first other function
	position := 0
	for i, ins := range insns {
		if position >= first {
			return insns[:i], position
		}
		position += int(ins.Size() / asm.InstructionSize)
		if ins.IsFunctionCall() {
			// Once it is compiled, the constant is the function's number and the distance is here.
			distance := int(ins.Offset)
			if distance == 0 {
				distance = int(ins.Constant)
			}
			first = min(first, position+distance)
		}
	}
	return insns, position
}
