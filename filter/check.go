package filter

import (
	"errors"
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// MaxInstructions is the kernel's limit on a classic program, BPF_MAXINSNS.
const MaxInstructions = cbpf.MaxInstructions

// Check returns nil if the kernel's checker for classic programs would accept prog. It requires
// known opcodes, jumps forward and inside the program, no division by a constant zero, no shift by
// more than 31, scratch words 0 to 15, and a return at the end. An error names the instruction by
// its index.
func Check(prog []bpf.RawInstruction) error { return check(prog, 0) }

// check is Check for a program with a number of sets.
func check(prog []bpf.RawInstruction, sets int) error {
	switch n := len(prog); {
	case n == 0:
		return errors.New("program has no instructions")
	case n > MaxInstructions:
		return fmt.Errorf("program has %d instructions, the kernel takes %d", n, MaxInstructions)
	case prog[n-1].Op&cbpf.ClassMask != cbpf.ClassRET:
		return fmt.Errorf("instruction %d: program does not end with ret", n-1)
	}
	for i, ins := range prog {
		if set, hasSet := cbpf.SetOf(ins.Op); hasSet && set < sets && cbpf.IsLookup(ins.Op) {
			continue
		}
		if err := checkInstruction(ins, len(prog)-i-1); err != nil {
			return fmt.Errorf("instruction %d: %w", i, err)
		}
	}
	return nil
}

// checkInstruction checks an instruction. left is the number of instructions after it.
func checkInstruction(ins bpf.RawInstruction, left int) error {
	if !cbpf.IsKnown(ins.Op) {
		return fmt.Errorf("unknown opcode %#x", ins.Op)
	}
	class, mode := ins.Op&cbpf.ClassMask, ins.Op&cbpf.ModeMask
	switch {
	case class == cbpf.ClassALU && ins.Op&cbpf.SrcMask == cbpf.SrcK:
		switch code := ins.Op & cbpf.OpMask; {
		case (code == cbpf.OpDiv || code == cbpf.OpMod) && ins.K == 0:
			return errors.New("division by zero")
		case (code == cbpf.OpLsh || code == cbpf.OpRsh) && ins.K > 31:
			return fmt.Errorf("shift by %d bits", ins.K)
		}
	case class == cbpf.ClassST, class == cbpf.ClassSTX, (class == cbpf.ClassLD || class == cbpf.ClassLDX) && mode == cbpf.ModeMEM:
		if ins.K >= cbpf.ScratchWords {
			return fmt.Errorf("scratch word M[%d] does not exist", ins.K)
		}
	case ins.Op == cbpf.Ja:
		if uint64(ins.K) >= uint64(left) {
			return errors.New("jump leaves the program")
		}
	case class == cbpf.ClassJMP:
		if int(ins.Jt) >= left || int(ins.Jf) >= left {
			return errors.New("jump leaves the program")
		}
	}
	return nil
}
