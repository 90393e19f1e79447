package cbpf

import "golang.org/x/net/bpf"

// Interpret runs a checked classic program as libpcap's interpreter does: a load beyond the end of
// the packet or a division by zero returns 0, and a shift by more than 31 bits sets A to 0.
// Translated programs must give the same results.
func Interpret(prog []bpf.RawInstruction, pkt []byte, wireLen uint32) uint32 {
	return InterpretWith(nil, prog, pkt, wireLen)
}

// InterpretWith is Interpret for a program with lookups: contains reports whether a set has a key.
func InterpretWith(contains func(set int, key []byte) bool, prog []bpf.RawInstruction, pkt []byte, wireLen uint32) uint32 {
	var a, x uint32
	var mem [ScratchWords]uint32
	fetch := func(at uint64, size int) (uint32, bool) {
		if at+uint64(size) > uint64(len(pkt)) {
			return 0, false
		}
		return bigEndian(pkt[at : at+uint64(size)]), true
	}
	for pc := 0; ; pc++ {
		i := prog[pc]
		operand := i.K
		if i.Op&SrcMask == SrcX {
			operand = x
		}
		ok := true
		switch i.Op & ClassMask {
		case ClassRET:
			if i.Op == RetK {
				return i.K
			}
			return a
		case ClassLD:
			if set, isLookup := SetOf(i.Op); isLookup {
				at, size := uint64(i.K), uint64(LoadSize(i.Op))
				if i.Op&ModeMask == ModeIND {
					at += uint64(x)
				}
				if ok = at+size <= uint64(len(pkt)); ok {
					a = 0
					if contains(set, pkt[at:at+size]) {
						a = 1
					}
				}
				break
			}
			switch i.Op & ModeMask {
			case ModeIMM:
				a = i.K
			case ModeLEN:
				a = wireLen
			case ModeMEM:
				a = mem[i.K]
			case ModeABS:
				a, ok = fetch(uint64(i.K), LoadSize(i.Op))
			case ModeIND:
				a, ok = fetch(uint64(i.K)+uint64(x), LoadSize(i.Op))
			}
		case ClassLDX:
			switch i.Op & ModeMask {
			case ModeIMM:
				x = i.K
			case ModeLEN:
				x = wireLen
			case ModeMEM:
				x = mem[i.K]
			case ModeMSH:
				x, ok = fetch(uint64(i.K), 1)
				x = x & 0xf * 4
			}
		case ClassST:
			mem[i.K] = a
		case ClassSTX:
			mem[i.K] = x
		case ClassALU:
			if i.Op == Neg {
				a = -a
			} else {
				a, ok = Calculate(int(i.Op&OpMask), a, operand)
			}
		case ClassMISC:
			if i.Op == Tax {
				x = a
			} else {
				a = x
			}
		case ClassJMP:
			switch {
			case i.Op == Ja:
				pc += int(i.K)
			case Jumps(int(i.Op), a, operand):
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

// bigEndian returns the number in up to four bytes.
func bigEndian(b []byte) (v uint32) {
	for _, c := range b {
		v = v<<8 | uint32(c)
	}
	return v
}
