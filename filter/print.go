package filter

import (
	"fmt"
	"strings"

	"golang.org/x/net/bpf"
)

// Decimal prints a program as tcpdump -ddd does; ParseRaw reads it. Every line ends with a newline.
func Decimal(prog []bpf.RawInstruction) string {
	var b strings.Builder
	fmt.Fprintln(&b, len(prog))
	for _, i := range prog {
		fmt.Fprintln(&b, i.Op, i.Jt, i.Jf, i.K)
	}
	return b.String()
}

// CArray prints a program as tcpdump -dd does, initialisers of struct sock_filter.
func CArray(prog []bpf.RawInstruction) string {
	var b strings.Builder
	for _, i := range prog {
		fmt.Fprintf(&b, "{ 0x%x, %d, %d, 0x%08x },\n", i.Op, i.Jt, i.Jf, i.K)
	}
	return b.String()
}

// Listing prints a program as tcpdump -d does, for people.
func Listing(prog []bpf.RawInstruction) string {
	var b strings.Builder
	for n, i := range prog {
		name, operand := mnemonic(n, i)
		if i.Op&classMask == classJMP && i.Op != insJa && name != "unimp" {
			fmt.Fprintf(&b, "(%03d) %-8s %-16s jt %d\tjf %d\n", n, name, operand, n+1+int(i.Jt), n+1+int(i.Jf))
		} else {
			fmt.Fprintf(&b, "(%03d) %-8s %s\n", n, name, operand)
		}
	}
	return b.String()
}

var (
	aluNames = map[uint16]string{opAdd: "add", opSub: "sub", opMul: "mul", opDiv: "div", opMod: "mod", opAnd: "and", opOr: "or",
		opXor: "xor", opLsh: "lsh", opRsh: "rsh"}
	jumpNames = map[uint16]string{opJeq: "jeq", opJgt: "jgt", opJge: "jge", opJset: "jset"}
	sizeNames = map[uint16]string{sizeW: "ld", sizeH: "ldh", sizeB: "ldb"}
)

// ancillaryNames are what Linux's sockets hand a filter beside the packet, by offset from SKF_AD_OFF (uapi/linux/filter.h).
var ancillaryNames = map[uint32]string{0: "proto", 4: "type", 8: "ifidx", 12: "nla", 16: "nlan", 20: "mark", 24: "queue",
	28: "hatype", 32: "rxhash", 36: "cpu", 40: "xor_x", 44: "vlan_tci", 48: "vlanp", 52: "poff", 56: "random", 60: "vlan_tpid"}

const ancillaryOffset = 0xfffff000

// mnemonic gives name and operand of an instruction. Numbers are signed, as in tcpdump.
func mnemonic(n int, i bpf.RawInstruction) (name, operand string) {
	k := int32(i.K)
	if !knownOpcodes[i.Op] || i.Op == classLDX|modeLEN {
		return "unimp", fmt.Sprintf("0x%x", i.Op)
	}
	switch i.Op & classMask {
	case classLD, classLDX:
		return loadMnemonic(i)
	case classST:
		return "st", fmt.Sprintf("M[%d]", k)
	case classSTX:
		return "stx", fmt.Sprintf("M[%d]", k)
	case classRET:
		if i.Op == insRetK {
			return "ret", fmt.Sprintf("#%d", k)
		}
		return "ret", ""
	case classMISC:
		if i.Op == insTax {
			return "tax", ""
		}
		return "txa", ""
	case classJMP:
		if i.Op == insJa {
			return "ja", fmt.Sprint(int32(n) + 1 + k)
		}
		if i.Op&srcMask == srcX {
			return jumpNames[i.Op&opMask], "x"
		}
		return jumpNames[i.Op&opMask], fmt.Sprintf("#0x%x", i.K)
	}
	name = aluNames[i.Op&opMask]
	switch {
	case i.Op == insNeg:
		return "neg", ""
	case i.Op&srcMask == srcX:
		return name, "x"
	case name == "and" || name == "or" || name == "xor":
		return name, fmt.Sprintf("#0x%x", i.K)
	}
	return name, fmt.Sprintf("#%d", k)
}

func loadMnemonic(i bpf.RawInstruction) (name, operand string) {
	k := int32(i.K)
	if i.Op == insLdxMsh {
		return "ldxb", fmt.Sprintf("4*([%d]&0xf)", k)
	}
	name = sizeNames[i.Op&sizeMask]
	if i.Op&classMask == classLDX {
		name = "ldx"
	}
	switch i.Op & modeMask {
	case modeIMM:
		return name, fmt.Sprintf("#0x%x", i.K)
	case modeABS:
		if what := ancillaryNames[i.K-ancillaryOffset]; i.K >= ancillaryOffset && what != "" {
			return name, "[" + what + "]"
		}
		return name, fmt.Sprintf("[%d]", k)
	case modeIND:
		return name, fmt.Sprintf("[x + %d]", k)
	case modeMEM:
		return name, fmt.Sprintf("M[%d]", k)
	default:
		return name, "#pktlen"
	}
}
