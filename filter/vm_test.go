package filter

import "golang.org/x/net/bpf"

// interpret runs a checked classic program as libpcap's interpreter does: loads behind the end and divisions by zero give 0, a
// shift by more than 31 leaves nothing. It is the reference the eBPF is held against.
func interpret(prog []bpf.RawInstruction, pkt []byte, wireLen uint32) uint32 {
	var a, x uint32
	var mem [scratchSlots]uint32
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
		if i.Op&srcMask == srcX {
			operand = x
		}
		ok := true
		switch i.Op & classMask {
		case classRET:
			if i.Op == insRetK {
				return i.K
			}
			return a
		case classLD:
			switch i.Op & modeMask {
			case modeIMM:
				a = i.K
			case modeLEN:
				a = wireLen
			case modeMEM:
				a = mem[i.K]
			case modeABS:
				a, ok = fetch(uint64(i.K), size(i).Sizeof())
			case modeIND:
				a, ok = fetch(uint64(i.K)+uint64(x), size(i).Sizeof())
			}
		case classLDX:
			switch i.Op & modeMask {
			case modeIMM:
				x = i.K
			case modeLEN:
				x = wireLen
			case modeMEM:
				x = mem[i.K]
			case modeMSH:
				x, ok = fetch(uint64(i.K), 1)
				x = x & 0xf * 4
			}
		case classST:
			mem[i.K] = a
		case classSTX:
			mem[i.K] = x
		case classALU:
			if i.Op == insNeg {
				a = -a
			} else {
				a, ok = calculate(int(i.Op&opMask), a, operand)
			}
		case classMISC:
			if i.Op == insTax {
				x = a
			} else {
				a = x
			}
		case classJMP:
			switch {
			case i.Op == insJa:
				pc += int(i.K)
			case jumps(int(i.Op), a, operand):
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
