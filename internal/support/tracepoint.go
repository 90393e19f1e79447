package support

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// TracepointArguments returns the types of a tracepoint's arguments in the kernel's BTF: "*sk_buff,
// int". It omits the first argument, which is for the kernel's own use. The error is a
// btf.ErrNotFound if the kernel does not have the tracepoint.
func TracepointArguments(kernel *btf.Spec, tracepoint string) (string, error) {
	name := "btf_trace_" + tracepoint
	var def *btf.Typedef
	if err := kernel.TypeByName(name, &def); err != nil {
		return "", err
	}
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return "", fmt.Errorf("%s is not a pointer", name)
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return "", fmt.Errorf("%s does not point to a function", name)
	}
	var args []string
	for _, p := range proto.Params[1:] {
		args = append(args, typeName(p.Type))
	}
	return strings.Join(args, ", "), nil
}

// typeName describes a type in as much detail as a program that reads it needs.
func typeName(t btf.Type) string {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return "*" + typeName(t.Target)
	case *btf.Void:
		return "void"
	case *btf.Int:
		switch {
		case t.Size == 1:
			return "char"
		case t.Size == 4 && t.Encoding == btf.Signed:
			return "int"
		case t.Size == 4:
			return "uint"
		}
		return fmt.Sprintf("%s of %d bytes", t.Name, t.Size)
	default:
		return t.TypeName()
	}
}
