package ebpf

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// instruction emits the code of one classic instruction.
func (t *translator) instruction(i int) {
	ins := t.prog[i]
	switch ins.Op & cbpf.ClassMask {
	case cbpf.ClassLD, cbpf.ClassLDX:
		t.load(i, ins)
	case cbpf.ClassST:
		t.emit(asm.StoreMem(asm.RFP, scratch(ins.K), regA, asm.Word))
	case cbpf.ClassSTX:
		t.emit(asm.StoreMem(asm.RFP, scratch(ins.K), regX, asm.Word))
	case cbpf.ClassALU:
		t.arithmetic(ins)
	case cbpf.ClassJMP:
		t.branch(i, ins)
	case cbpf.ClassMISC:
		if ins.Op == cbpf.Tax {
			t.emit(asm.Mov.Reg32(regX, regA))
		} else {
			t.emit(asm.Mov.Reg32(regA, regX))
		}
	case cbpf.ClassRET:
		if ins.Op == cbpf.RetK {
			t.emit(asm.Mov.Imm32(regA, int32(ins.K)))
		}
		t.emit(asm.Return())
	}
}

// load emits the code of a load into A or X.
func (t *translator) load(i int, ins bpf.RawInstruction) {
	to := regA
	if ins.Op&cbpf.ClassMask == cbpf.ClassLDX {
		to = regX
	}
	switch ins.Op & cbpf.ModeMask {
	case cbpf.ModeIMM:
		t.emit(asm.Mov.Imm32(to, int32(ins.K)))
	case cbpf.ModeLEN:
		t.emit(asm.Mov.Reg32(to, regLen))
	case cbpf.ModeMEM:
		t.emit(asm.LoadMem(to, asm.RFP, scratch(ins.K), asm.Word))
	default: // from the packet
		switch {
		case t.beyond(ins):
			t.jumpTo(reject, always64(0))
			return
		case ins.Op&cbpf.SetMask != 0:
			t.lookup(i, ins)
			return
		case ins.Op&cbpf.ModeMask == cbpf.ModeIND:
			t.packet.loadX(t, ins.K, asmSize(cbpf.LoadSize(ins.Op)))
		default:
			t.packet.load(t, to, ins.K, asmSize(cbpf.LoadSize(ins.Op)), t.facts[i].guard)
		}
		if ins.Op == cbpf.LdxMsh {
			t.emit(asm.And.Imm32(regX, 0xf), asm.LSh.Imm32(regX, 2))
		}
	}
}

// aluOps are the eBPF operations of the classic ones.
var aluOps = map[uint16]asm.ALUOp{cbpf.OpAdd: asm.Add, cbpf.OpSub: asm.Sub, cbpf.OpMul: asm.Mul, cbpf.OpDiv: asm.Div, cbpf.OpOr: asm.Or, cbpf.OpAnd: asm.And,
	cbpf.OpLsh: asm.LSh, cbpf.OpRsh: asm.RSh, cbpf.OpMod: asm.Mod, cbpf.OpXor: asm.Xor}

// arithmetic emits the code of a calculation with A.
func (t *translator) arithmetic(ins bpf.RawInstruction) {
	code := ins.Op & cbpf.OpMask
	alu := aluOps[code]
	switch {
	case ins.Op == cbpf.Neg:
		t.emit(asm.Neg.Imm32(regA, 0))
	case ins.Op&cbpf.SrcMask == cbpf.SrcK:
		t.emit(alu.Imm32(regA, int32(ins.K)))
	case code == cbpf.OpDiv || code == cbpf.OpMod:
		t.jumpTo(reject, jumpK(asm.JEq, asm.Jump32Class, regX, 0))
		t.emit(alu.Reg32(regA, regX))
	case code == cbpf.OpLsh || code == cbpf.OpRsh:
		// eBPF shifts by X modulo 32, but a classic shift by 32 or more gives 0.
		over := jumpK(asm.JLE, asm.Jump32Class, regX, 31)
		over.Offset = 2
		t.emit(over, asm.Mov.Imm32(regA, 0), always64(1), alu.Reg32(regA, regX))
	default:
		t.emit(alu.Reg32(regA, regX))
	}
}

// jumpOps are the eBPF comparisons of the classic ones.
var jumpOps = map[uint16]asm.JumpOp{cbpf.OpJeq: asm.JEq, cbpf.OpJgt: asm.JGT, cbpf.OpJge: asm.JGE, cbpf.OpJset: asm.JSet}

// opposites maps each comparison to its negation. If the true exit is the next instruction, testing
// the negation saves a jump. JSet has no negation.
var opposites = map[asm.JumpOp]asm.JumpOp{asm.JEq: asm.JNE, asm.JGT: asm.JLE, asm.JGE: asm.JLT}

// branch emits the code of a jump.
func (t *translator) branch(i int, ins bpf.RawInstruction) {
	if ins.Op == cbpf.Ja {
		t.jumpTo(i+1+int(ins.K), always64(0))
		return
	}
	onTrue, onFalse := i+1+int(ins.Jt), i+1+int(ins.Jf)
	op := jumpOps[ins.Op&cbpf.OpMask]
	if opposite, ok := opposites[op]; ok && ins.Jt == 0 {
		op, onTrue, onFalse = opposite, onFalse, onTrue
	}
	cond := jumpK(op, asm.Jump32Class, regA, ins.K)
	if ins.Op&cbpf.SrcMask == cbpf.SrcX {
		cond = jumpX(op, asm.Jump32Class, regA, regX)
	}
	t.jumpTo(onTrue, cond)
	if onFalse != i+1 {
		t.jumpTo(onFalse, always64(0))
	}
}

// asmSize returns the size of 1, 2 or 4 bytes.
func asmSize(bytes int) asm.Size {
	switch bytes {
	case 1:
		return asm.Byte
	case 2:
		return asm.Half
	default:
		return asm.Word
	}
}
