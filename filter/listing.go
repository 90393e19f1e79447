package filter

import (
	"fmt"
	"strings"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
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

// Listing prints a program as tcpdump -d does, with mnemonics.
func Listing(prog []bpf.RawInstruction) string { return listing(prog, nil) }

func listing(prog []bpf.RawInstruction, sets []NamedSet) string {
	var b strings.Builder
	for n, i := range prog {
		name, operand := mnemonic(n, i)
		if set, hasSet := cbpf.SetOf(i.Op); hasSet && set < len(sets) {
			name, operand = lookupMnemonic(i, sets[set].Name)
		}
		if i.Op&cbpf.ClassMask == cbpf.ClassJMP && i.Op != cbpf.Ja && name != "unimp" {
			fmt.Fprintf(&b, "(%03d) %-8s %-16s jt %d\tjf %d\n", n, name, operand, n+1+int(i.Jt), n+1+int(i.Jf))
		} else {
			fmt.Fprintf(&b, "(%03d) %-8s %s\n", n, name, operand)
		}
	}
	return b.String()
}

var (
	aluNames = map[uint16]string{cbpf.OpAdd: "add", cbpf.OpSub: "sub", cbpf.OpMul: "mul", cbpf.OpDiv: "div", cbpf.OpMod: "mod", cbpf.OpAnd: "and", cbpf.OpOr: "or",
		cbpf.OpXor: "xor", cbpf.OpLsh: "lsh", cbpf.OpRsh: "rsh"}
	jumpNames = map[uint16]string{cbpf.OpJeq: "jeq", cbpf.OpJgt: "jgt", cbpf.OpJge: "jge", cbpf.OpJset: "jset"}
	sizeNames = map[uint16]string{cbpf.SizeW: "ld", cbpf.SizeH: "ldh", cbpf.SizeB: "ldb"}
)

// ancillaryNames are the values that Linux's sockets offer to a filter besides the packet, by the
// offset from SKF_AD_OFF (uapi/linux/filter.h).
var ancillaryNames = map[uint32]string{0: "proto", 4: "type", 8: "ifidx", 12: "nla", 16: "nlan", 20: "mark", 24: "queue",
	28: "hatype", 32: "rxhash", 36: "cpu", 40: "xor_x", 44: "vlan_tci", 48: "vlanp", 52: "poff", 56: "random", 60: "vlan_tpid"}

// ancillaryOffset is SKF_AD_OFF.
const ancillaryOffset = 0xfffff000

// mnemonic returns the name and the operand of instruction n. Numbers are signed, as in tcpdump.
func mnemonic(n int, i bpf.RawInstruction) (name, operand string) {
	k := int32(i.K)
	if !cbpf.IsKnown(i.Op) || i.Op == cbpf.LdxLen {
		return "unimp", fmt.Sprintf("0x%x", i.Op)
	}
	switch i.Op & cbpf.ClassMask {
	case cbpf.ClassLD, cbpf.ClassLDX:
		return loadMnemonic(i)
	case cbpf.ClassST:
		return "st", fmt.Sprintf("M[%d]", k)
	case cbpf.ClassSTX:
		return "stx", fmt.Sprintf("M[%d]", k)
	case cbpf.ClassRET:
		if i.Op == cbpf.RetK {
			return "ret", fmt.Sprintf("#%d", k)
		}
		return "ret", ""
	case cbpf.ClassMISC:
		if i.Op == cbpf.Tax {
			return "tax", ""
		}
		return "txa", ""
	case cbpf.ClassJMP:
		if i.Op == cbpf.Ja {
			return "ja", fmt.Sprint(int32(n) + 1 + k)
		}
		if i.Op&cbpf.SrcMask == cbpf.SrcX {
			return jumpNames[i.Op&cbpf.OpMask], "x"
		}
		return jumpNames[i.Op&cbpf.OpMask], fmt.Sprintf("#0x%x", i.K)
	}
	name = aluNames[i.Op&cbpf.OpMask]
	switch {
	case i.Op == cbpf.Neg:
		return "neg", ""
	case i.Op&cbpf.SrcMask == cbpf.SrcX:
		return name, "x"
	case name == "and" || name == "or" || name == "xor":
		return name, fmt.Sprintf("#0x%x", i.K)
	}
	return name, fmt.Sprintf("#%d", k)
}

// lookupMnemonic is mnemonic for look-ups: "in [26:4] @blocked" looks up the four bytes at 26.
func lookupMnemonic(i bpf.RawInstruction, set string) (name, operand string) {
	at := fmt.Sprint(i.K)
	if i.Op&cbpf.ModeMask == cbpf.ModeIND {
		at = "x + " + at
	}
	return "in", fmt.Sprintf("[%s:%d] @%s", at, cbpf.LoadSize(i.Op), set)
}

// loadMnemonic is mnemonic for loads.
func loadMnemonic(i bpf.RawInstruction) (name, operand string) {
	k := int32(i.K)
	if i.Op == cbpf.LdxMsh {
		return "ldxb", fmt.Sprintf("4*([%d]&0xf)", k)
	}
	name = sizeNames[i.Op&cbpf.SizeMask]
	if i.Op&cbpf.ClassMask == cbpf.ClassLDX {
		name = "ldx"
	}
	switch i.Op & cbpf.ModeMask {
	case cbpf.ModeIMM:
		return name, fmt.Sprintf("#0x%x", i.K)
	case cbpf.ModeABS:
		if ancillary := ancillaryNames[i.K-ancillaryOffset]; i.K >= ancillaryOffset && ancillary != "" {
			return name, "[" + ancillary + "]"
		}
		return name, fmt.Sprintf("[%d]", k)
	case cbpf.ModeIND:
		return name, fmt.Sprintf("[x + %d]", k)
	case cbpf.ModeMEM:
		return name, fmt.Sprintf("M[%d]", k)
	default:
		return name, "#pktlen"
	}
}
