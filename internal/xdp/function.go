package xdp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// SplitSelector splits the selector of a program into that of the program and the name of one of
// its functions: NAME, ID or all, and then /FUNCTION. function is "" for the whole program.
func SplitSelector(selector string) (program, function string) {
	program, function, _ = strings.Cut(selector, "/")
	return program, function
}

// A chosenProgram is a program that a selector names, or a function of it.
type chosenProgram struct {
	Program
	Function string // "" = the whole program
}

// contextOf returns the name of the context's type in the source of a program.
func contextOf(t ebpf.ProgramType) string {
	if t == ebpf.SchedCLS {
		return "__sk_buff"
	}
	return "xdp_md"
}

// enter makes the target a function of the program, instead of the whole program. The function must
// not be inlined by the compiler.
func (t *Target) enter(function string, info *ebpf.ProgramInfo) error {
	context := contextOf(info.Type)
	funcs, err := info.FuncInfos()
	if err != nil {
		return err
	}
	var found *btf.Func
	for _, f := range funcs {
		if f.Func.Name == function {
			found = f.Func
		}
	}
	remedy := "none of its functions does that is not inlined: declare it __noinline, with struct " + context + " * as its first argument"
	if others := traceable(funcs, context); len(others) > 0 {
		remedy = "these can be traced: " + strings.Join(others, ", ")
	}
	switch {
	case found == nil:
		return &TracingError{Reason: fmt.Sprintf("program %s has no function %s", t.Program, function), Remedy: remedy}
	case !takesPacket(found, context):
		return &TracingError{
			Reason: fmt.Sprintf("function %s of program %s does not take the packet, struct %s *, as its first argument", function, t.Program, context),
			Remedy: remedy,
		}
	case returnsNothing(found):
		return &TracingError{
			Reason: fmt.Sprintf("function %s of program %s returns nothing, and the kernel does not know the arguments of such functions", function, t.Program),
			Remedy: remedy,
		}
	}
	t.Function, t.Part, t.Returns = function, function, returnsOf(found)
	t.Name += "/" + function
	return nil
}

// traceable returns the names of a program's functions that can be traced.
func traceable(funcs btf.FuncOffsets, context string) (names []string) {
	for _, f := range funcs {
		if f.Offset != 0 && takesPacket(f.Func, context) && !returnsNothing(f.Func) {
			names = append(names, f.Func.Name)
		}
	}
	slices.Sort(names)
	return names
}

// returnsOf returns the meaning of a function's return value. It is a verdict only if the declared
// type is enum xdp_action; other functions return other numbers, such as errors.
func returnsOf(f *btf.Func) packet.VerdictKind {
	if proto, ok := f.Type.(*btf.FuncProto); ok {
		if returned, ok := btf.As[*btf.Enum](proto.Return); ok && returned.Name == "xdp_action" {
			return packet.XDPVerdict
		}
	}
	return packet.PlainNumber
}

func returnsNothing(f *btf.Func) bool {
	proto, ok := f.Type.(*btf.FuncProto)
	_, isVoid := proto.Return.(*btf.Void)
	return ok && isVoid
}
