package filter

import (
	"errors"
	"fmt"

	"golang.org/x/net/bpf"
)

// Check tells whether the kernel's checker for classic programs would take prog: known opcodes, jumps forward and inside, no
// division by a constant zero, no shift by more than 31, scratch words 0 to 15, a return at the end. An error names the
// instruction by its index.
func Check(prog []bpf.RawInstruction) error {
	switch n := len(prog); {
	case n == 0:
		return errors.New("program has no instructions")
	case n > MaxInstructions:
		return fmt.Errorf("program has %d instructions, the kernel takes %d", n, MaxInstructions)
	case prog[n-1].Op&classMask != classRET:
		return fmt.Errorf("instruction %d: program does not end with ret", n-1)
	}
	for i, ins := range prog {
		if err := checkInstruction(ins, len(prog)-i-1); err != nil {
			return fmt.Errorf("instruction %d: %w", i, err)
		}
	}
	return nil
}

// checkInstruction looks at an instruction with left more behind it.
func checkInstruction(ins bpf.RawInstruction, left int) error {
	if !knownOpcodes[ins.Op] {
		return fmt.Errorf("unknown opcode %#x", ins.Op)
	}
	class, mode := ins.Op&classMask, ins.Op&modeMask
	switch {
	case class == classALU && ins.Op&srcMask == srcK:
		switch code := ins.Op & opMask; {
		case (code == opDiv || code == opMod) && ins.K == 0:
			return errors.New("division by zero")
		case (code == opLsh || code == opRsh) && ins.K > 31:
			return fmt.Errorf("shift by %d bits", ins.K)
		}
	case class == classST, class == classSTX, (class == classLD || class == classLDX) && mode == modeMEM:
		if ins.K >= scratchSlots {
			return fmt.Errorf("scratch word M[%d] does not exist", ins.K)
		}
	case ins.Op == insJa:
		if uint64(ins.K) >= uint64(left) {
			return errors.New("jump leaves the program")
		}
	case class == classJMP:
		if int(ins.Jt) >= left || int(ins.Jf) >= left {
			return errors.New("jump leaves the program")
		}
	}
	return nil
}

// knownOpcodes are those of the kernel's bpf_check_classic.
var knownOpcodes = func() map[uint16]bool {
	m := map[uint16]bool{insNeg: true, insTax: true, insTxa: true, insRetK: true, classRET | rvalA: true, insJa: true,
		insLdImm: true, insLdMem: true, insLdLen: true, insLdxImm: true, insLdxMem: true, insLdxMsh: true,
		classLDX | modeLEN: true, classST: true, classSTX: true}
	for _, size := range []uint16{sizeW, sizeH, sizeB} {
		m[classLD|modeABS|size], m[classLD|modeIND|size] = true, true
	}
	for _, src := range []uint16{srcK, srcX} {
		for _, code := range []uint16{opAdd, opSub, opMul, opDiv, opMod, opAnd, opOr, opXor, opLsh, opRsh} {
			m[classALU|code|src] = true
		}
		for _, code := range []uint16{opJeq, opJgt, opJge, opJset} {
			m[classJMP|code|src] = true
		}
	}
	return m
}()
