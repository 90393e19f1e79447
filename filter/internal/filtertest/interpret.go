package filtertest

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Interpret runs a checked classic program as libpcap's interpreter does: a load behind the end of
// the packet and a division by zero give 0, and a shift by more than 31 bits gives 0 in A.
// Translated programs must give the same results.
func Interpret(prog []bpf.RawInstruction, pkt []byte, wireLen uint32) uint32 {
	var a, x uint32
	var mem [cbpf.ScratchWords]uint32
	fetch := func(at uint64, size int) (uint32, bool) {
		if at+uint64(size) > uint64(len(pkt)) {
			return 0, false
		}
		var v uint32
		for _, c := range pkt[at : at+uint64(size)] {
			v = v<<8 | uint32(c)
		}
		return v, true
	}
	for pc := 0; ; pc++ {
		i := prog[pc]
		operand := i.K
		if i.Op&cbpf.SrcMask == cbpf.SrcX {
			operand = x
		}
		ok := true
		switch i.Op & cbpf.ClassMask {
		case cbpf.ClassRET:
			if i.Op == cbpf.RetK {
				return i.K
			}
			return a
		case cbpf.ClassLD:
			switch i.Op & cbpf.ModeMask {
			case cbpf.ModeIMM:
				a = i.K
			case cbpf.ModeLEN:
				a = wireLen
			case cbpf.ModeMEM:
				a = mem[i.K]
			case cbpf.ModeABS:
				a, ok = fetch(uint64(i.K), cbpf.LoadSize(i))
			case cbpf.ModeIND:
				a, ok = fetch(uint64(i.K)+uint64(x), cbpf.LoadSize(i))
			}
		case cbpf.ClassLDX:
			switch i.Op & cbpf.ModeMask {
			case cbpf.ModeIMM:
				x = i.K
			case cbpf.ModeLEN:
				x = wireLen
			case cbpf.ModeMEM:
				x = mem[i.K]
			case cbpf.ModeMSH:
				x, ok = fetch(uint64(i.K), 1)
				x = x & 0xf * 4
			}
		case cbpf.ClassST:
			mem[i.K] = a
		case cbpf.ClassSTX:
			mem[i.K] = x
		case cbpf.ClassALU:
			if i.Op == cbpf.Neg {
				a = -a
			} else {
				a, ok = cbpf.Calculate(int(i.Op&cbpf.OpMask), a, operand)
			}
		case cbpf.ClassMISC:
			if i.Op == cbpf.Tax {
				x = a
			} else {
				a = x
			}
		case cbpf.ClassJMP:
			switch {
			case i.Op == cbpf.Ja:
				pc += int(i.K)
			case cbpf.Jumps(int(i.Op), a, operand):
				pc += int(i.Jt)
			default:
				pc += int(i.Jf)
			}
		}
		if !ok {
			return 0
		}
	}
}
