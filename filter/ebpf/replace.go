package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Replace replaces the function named symbol in spec by insns, before the program is loaded. The
// first of insns takes over the metadata of the function's first instruction (its name and BTF), so
// that instruction must need no relocation. Replace does not change insns; they can be used again.
func Replace(spec *ebpf.ProgramSpec, symbol string, insns asm.Instructions) error {
	if len(insns) == 0 {
		return errors.New("replace " + symbol + ": no instructions")
	}
	first, end, err := findFunction(spec, symbol)
	if err != nil {
		return fmt.Errorf("replace %s: %w", symbol, err)
	}
	body := slices.Clone(insns)
	body[0] = body[0].WithMetadata(spec.Instructions[first].Metadata).WithReference("")
	spec.Instructions = slices.Concat(spec.Instructions[:first], body, spec.Instructions[end:])
	return nil
}

// findFunction returns the indices of a function's first instruction and of the next function.
func findFunction(spec *ebpf.ProgramSpec, symbol string) (first, end int, err error) {
	first = slices.IndexFunc(spec.Instructions, func(ins asm.Instruction) bool { return ins.Symbol() == symbol })
	if first < 0 {
		return 0, 0, fmt.Errorf("program %s has no such function", spec.Name)
	}
	return first, functionEnd(spec.Instructions, first), nil
}

// functionEnd returns the index where the function that starts at first ends: at the next symbol
// that no jump refers to. A symbol that a jump refers to is a label inside the function.
func functionEnd(insns asm.Instructions, first int) int {
	labels := map[string]bool{}
	for _, ins := range insns {
		if class := ins.OpCode.Class(); class.IsJump() && !ins.IsFunctionCall() {
			labels[ins.Reference()] = true
		}
	}
	for i := first + 1; i < len(insns); i++ {
		if name := insns[i].Symbol(); name != "" && !labels[name] {
			return i
		}
	}
	return len(insns)
}
