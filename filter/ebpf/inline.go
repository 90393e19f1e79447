package ebpf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Inline is Replace for a function whose result the program only compares with 0. It jumps to insns
// and back instead of calling them, which saves several nanoseconds per packet. That requires that
// the program calls the function once, and that insns use no stack and call no function; otherwise
// Inline is the same as Replace. Inlining removes the function, and a constant result other than 0
// becomes 1.
func Inline(spec *ebpf.ProgramSpec, symbol string, insns asm.Instructions) error {
	calls := callsOf(spec.Instructions, symbol)
	if len(calls) != 1 || len(insns) == 0 || !needNoFrame(insns) {
		return Replace(spec, symbol, insns)
	}
	first, next, err := findFunction(spec, symbol)
	if err != nil {
		return fmt.Errorf("inline %s: %w", symbol, err)
	}
	if first == 0 {
		return errors.New("inline " + symbol + ": the program begins with it")
	}
	without := slices.Concat(spec.Instructions[:first], spec.Instructions[next:])
	call := callsOf(without, symbol)[0]
	end := functionEnd(without, call)
	there, back := rawSize(without[call+1:end]), -rawSize(without[call+1:end])
	if there+rawSize(insns) > math.MaxInt16 {
		return Replace(spec, symbol, insns)
	}
	body := slices.Clone(insns)
	for i, ins := range body {
		if ins.OpCode.JumpOp() != asm.Exit {
			continue
		}
		body[i] = always64(int16(back - rawSize(body[:i+1])))
		// With different constants, the verifier would follow the caller's paths once for each.
		if i > 0 && isConstant(body[i-1]) && body[i-1].Constant != 0 {
			body[i-1].Constant = 1
		}
	}
	jump := always64(int16(there))
	jump.Metadata = without[call].Metadata
	without[call] = jump.WithReference("")
	spec.Instructions = slices.Concat(without[:end], body, without[end:])
	return nil
}

// callsOf returns the indices of the calls of a function.
func callsOf(insns asm.Instructions, symbol string) (calls []int) {
	for i, ins := range insns {
		if ins.IsFunctionCall() && ins.Reference() == symbol {
			calls = append(calls, i)
		}
	}
	return calls
}

// needNoFrame reports whether insns can run inside any function: they use no stack, overwrite only
// the registers that a call overwrites, and refer to no symbol.
func needNoFrame(insns asm.Instructions) bool {
	return !slices.ContainsFunc(insns, func(ins asm.Instruction) bool {
		return ins.Dst > asm.R5 || ins.Src > asm.R5 || ins.OpCode.JumpOp() == asm.Call || ins.Symbol() != "" || ins.Reference() != ""
	})
}

// isConstant reports whether an instruction sets the result to a constant.
func isConstant(ins asm.Instruction) bool {
	return ins.OpCode == asm.Mov.Imm32(regA, 0).OpCode && ins.Dst == regA
}

// rawSize returns the size of instructions in units of eight bytes, the unit of jump offsets.
func rawSize(insns asm.Instructions) (n int) {
	for _, ins := range insns {
		n += int(ins.Size() / asm.InstructionSize)
	}
	return n
}
