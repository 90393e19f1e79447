package filter

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"
)

// instruction emits the code of one classic instruction.
func (t *translator) instruction(i int) {
	ins := t.prog[i]
	switch ins.Op & classMask {
	case classLD, classLDX:
		t.load(i, ins)
	case classST:
		t.emit(asm.StoreMem(asm.RFP, scratch(ins.K), regA, asm.Word))
	case classSTX:
		t.emit(asm.StoreMem(asm.RFP, scratch(ins.K), regX, asm.Word))
	case classALU:
		t.arithmetic(ins)
	case classJMP:
		t.branch(i, ins)
	case classMISC:
		if ins.Op == insTax {
			t.emit(asm.Mov.Reg32(regX, regA))
		} else {
			t.emit(asm.Mov.Reg32(regA, regX))
		}
	case classRET:
		if ins.Op == insRetK {
			t.emit(asm.Mov.Imm32(regA, int32(ins.K)))
		}
		t.emit(asm.Return())
	}
}

func (t *translator) load(i int, ins bpf.RawInstruction) {
	to := regA
	if ins.Op&classMask == classLDX {
		to = regX
	}
	switch ins.Op & modeMask {
	case modeIMM:
		t.emit(asm.Mov.Imm32(to, int32(ins.K)))
	case modeLEN:
		t.emit(asm.Mov.Reg32(to, regLen))
	case modeMEM:
		t.emit(asm.LoadMem(to, asm.RFP, scratch(ins.K), asm.Word))
	default: // from the packet
		switch {
		case t.beyond(ins):
			t.jumpTo(reject, always64(0))
			return
		case ins.Op&modeMask == modeIND:
			t.packet.loadX(t, ins.K, size(ins))
		default:
			t.packet.load(t, to, ins.K, size(ins), t.flow[i].guard)
		}
		if ins.Op == insLdxMsh {
			t.emit(asm.And.Imm32(regX, 0xf), asm.LSh.Imm32(regX, 2))
		}
	}
}

var aluOps = map[uint16]asm.ALUOp{opAdd: asm.Add, opSub: asm.Sub, opMul: asm.Mul, opDiv: asm.Div, opOr: asm.Or, opAnd: asm.And,
	opLsh: asm.LSh, opRsh: asm.RSh, opMod: asm.Mod, opXor: asm.Xor}

func (t *translator) arithmetic(ins bpf.RawInstruction) {
	code := ins.Op & opMask
	alu := aluOps[code]
	switch {
	case ins.Op == insNeg:
		t.emit(asm.Neg.Imm32(regA, 0))
	case ins.Op&srcMask == srcK:
		t.emit(alu.Imm32(regA, int32(ins.K)))
	case code == opDiv || code == opMod:
		t.jumpTo(reject, jumpK(asm.JEq, asm.Jump32Class, regX, 0))
		t.emit(alu.Reg32(regA, regX))
	case code == opLsh || code == opRsh:
		// eBPF takes the shift modulo 32, a classic one of 32 and more leaves nothing.
		over := jumpK(asm.JLE, asm.Jump32Class, regX, 31)
		over.Offset = 2
		t.emit(over, asm.Mov.Imm32(regA, 0), always64(1), alu.Reg32(regA, regX))
	default:
		t.emit(alu.Reg32(regA, regX))
	}
}

var jumpOps = map[uint16]asm.JumpOp{opJeq: asm.JEq, opJgt: asm.JGT, opJge: asm.JGE, opJset: asm.JSet}

// opposites save a jump where the true branch is the next instruction.
var opposites = map[asm.JumpOp]asm.JumpOp{asm.JEq: asm.JNE, asm.JGT: asm.JLE, asm.JGE: asm.JLT}

func (t *translator) branch(i int, ins bpf.RawInstruction) {
	if ins.Op == insJa {
		t.jumpTo(i+1+int(ins.K), always64(0))
		return
	}
	onTrue, onFalse := i+1+int(ins.Jt), i+1+int(ins.Jf)
	op := jumpOps[ins.Op&opMask]
	if opposite, ok := opposites[op]; ok && ins.Jt == 0 {
		op, onTrue, onFalse = opposite, onFalse, onTrue
	}
	cond := jumpK(op, asm.Jump32Class, regA, ins.K)
	if ins.Op&srcMask == srcX {
		cond = jumpX(op, asm.Jump32Class, regA, regX)
	}
	t.jumpTo(onTrue, cond)
	if onFalse != i+1 {
		t.jumpTo(onFalse, always64(0))
	}
}

// size is how many bytes an instruction loads from the packet.
func size(ins bpf.RawInstruction) asm.Size {
	switch ins.Op & sizeMask {
	case sizeB:
		return asm.Byte
	case sizeH:
		return asm.Half
	default:
		return asm.Word
	}
}
