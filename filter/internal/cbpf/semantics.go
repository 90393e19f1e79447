package cbpf

import "golang.org/x/net/bpf"

// IsKnown reports whether the kernel's bpf_check_classic accepts an opcode.
func IsKnown(op uint16) bool { return knownOpcodes[op] }

var knownOpcodes = func() map[uint16]bool {
	m := map[uint16]bool{Neg: true, Tax: true, Txa: true, RetK: true, RetA: true, Ja: true,
		LdImm: true, LdMem: true, LdLen: true, LdxImm: true, LdxMem: true, LdxMsh: true,
		LdxLen: true, St: true, Stx: true}
	for _, size := range []uint16{SizeW, SizeH, SizeB} {
		m[LdAbs|size], m[LdInd|size] = true, true
	}
	for _, src := range []uint16{SrcK, SrcX} {
		for _, code := range []uint16{OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpLsh, OpRsh} {
			m[ClassALU|code|src] = true
		}
		for _, code := range []uint16{OpJeq, OpJgt, OpJge, OpJset} {
			m[ClassJMP|code|src] = true
		}
	}
	return m
}()

// PacketLoad reports whether an instruction reads the packet at a constant offset, or at an offset
// plus X.
func PacketLoad(ins bpf.RawInstruction) (constant, indexed bool) {
	class, mode := ins.Op&ClassMask, ins.Op&ModeMask
	constant = class == ClassLD && mode == ModeABS || ins.Op == LdxMsh
	return constant, class == ClassLD && mode == ModeIND
}

// LoadSize returns the number of bytes that an opcode loads from the packet: 1, 2 or 4, and 16
// for a lookup of an IPv6 address.
func LoadSize(op uint16) int {
	switch op & SizeMask {
	case SizeB:
		return 1
	case SizeH:
		return 2
	case SizeAddress6:
		return 16
	default:
		return 4
	}
}

// Calculate returns the result of an arithmetic opcode with operands a and b. ok is false if the
// opcode divides and b is 0. A shift by more than 31 bits gives 0.
func Calculate(code int, a, b uint32) (result uint32, ok bool) {
	switch code & OpMask {
	case OpAdd:
		return a + b, true
	case OpSub:
		return a - b, true
	case OpMul:
		return a * b, true
	case OpOr:
		return a | b, true
	case OpAnd:
		return a & b, true
	case OpXor:
		return a ^ b, true
	case OpLsh:
		return a << b, true
	case OpRsh:
		return a >> b, true
	}
	if b == 0 {
		return 0, false
	}
	if code&OpMask == OpDiv {
		return a / b, true
	}
	return a % b, true
}

// Jumps reports whether a conditional jump is taken when A is a and the operand is b.
func Jumps(code int, a, b uint32) bool {
	switch code & OpMask {
	case OpJeq:
		return a == b
	case OpJgt:
		return a > b
	case OpJge:
		return a >= b
	default:
		return a&b != 0
	}
}
