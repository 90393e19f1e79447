package xdp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Only a program whose argument the kernel knows for an XDP program's context can be traced, and
// its name may be longer than the kernel's own, of 15 characters.
func TestTargetArgument(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	context := &btf.Struct{Name: "xdp_md", Size: 4, Members: []btf.Member{{Name: "data", Type: &btf.Int{Name: "int", Size: 4}}}}
	pointer := func(to btf.Type) []btf.FuncParam {
		return []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: to}}}
	}
	for _, test := range []struct {
		name   string
		params []btf.FuncParam
		ok     bool
	}{
		{"struct xdp_md *", pointer(context), true},
		{"const struct xdp_md *", pointer(&btf.Const{Type: context}), true},
		{"a typedef of it", pointer(&btf.Typedef{Name: "context", Type: context}), true},
		{"void *", pointer(&btf.Void{}), false},
		{"another struct", pointer(&btf.Struct{Name: "packet", Size: 4, Members: context.Members}), false},
		{"a number", []btf.FuncParam{{Name: "ctx", Type: &btf.Int{Name: "long", Size: 8}}}, false},
		{"none", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			const name = "a_name_of_more_than_15_characters"
			main := &btf.Func{Name: name, Linkage: btf.GlobalFunc,
				Type: &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Params: test.params}}
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Name:         name,
				Type:         ebpf.XDP,
				Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, int32(xdp.Pass)), main), asm.Return()},
			})
			must(t, err)
			defer prog.Close()
			target, err := xdp.OpenTarget(mustIdentify(t, prog))
			if test.ok {
				must(t, err)
				defer target.Prog.Close()
				if target.Name != name || target.Function != name {
					t.Errorf("%s, function %s", target.Program, target.Function)
				}
				return
			}
			const want = "is not declared as struct xdp_md *, which tracers need to see packets: declare it so, and load it again"
			if reason := (*xdp.TracingError)(nil); !errors.As(err, &reason) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want ...%s", err, want)
			}
		})
	}
}
