package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Replace puts insns in the place of the function called symbol in spec, before the program is loaded. The function's first
// instruction hands its metadata, which has the name and the BTF of the function, to the first one of insns; the stub should
// therefore begin with an instruction that needs no relocation. insns may be used again.
func Replace(spec *ebpf.ProgramSpec, symbol string, insns asm.Instructions) error {
	if len(insns) == 0 {
		return errors.New("replace " + symbol + ": no instructions")
	}
	first := slices.IndexFunc(spec.Instructions, func(ins asm.Instruction) bool { return ins.Symbol() == symbol })
	if first < 0 {
		return fmt.Errorf("replace %s: program %s has no such function", symbol, spec.Name)
	}
	end := functionEnd(spec.Instructions, first)
	body := slices.Clone(insns)
	body[0] = body[0].WithMetadata(spec.Instructions[first].Metadata).WithReference("")
	spec.Instructions = slices.Concat(spec.Instructions[:first], body, spec.Instructions[end:])
	return nil
}

// functionEnd is the index of the next function. A symbol may be a label, too: then something jumps to it.
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
