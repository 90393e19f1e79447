package xdp_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A program that runs alone loses no count where another packet comes to its CPU: on no kernel, and
// not on a real-time one. It reads a counter, and writes it after a while.
func TestAlone(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	counts := newMap(t, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	main := &btf.Func{
		Name: "count_slowly", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}},
		},
	}
	spec := &ebpf.ProgramSpec{
		Name: "count_slowly", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Imm(asm.R3, 0), main).WithSymbol("count_slowly"),
			asm.LoadMapValue(asm.R1, counts.FD(), 0),
			asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
			asm.Add.Imm(asm.R3, 1).WithSymbol("again"),
			asm.JLT.Imm(asm.R3, 2000, "again"),
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R0, int32(xdp.Pass)),
			asm.Return(),
		},
	}
	must(t, xdp.Alone(spec))
	prog, err := ebpf.NewProgram(spec)
	must(t, err)
	defer prog.Close()
	if own, err := xdp.Identify(prog); err != nil || own.Name != "count_slowly" {
		t.Errorf("it is called %s; %v", own.Name, err)
	}
	runs, err := testnet.RunInterrupted(1000, func() error {
		verdict, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, testnet.MinFrame)})
		if xdp.Verdict(verdict) != xdp.Pass {
			t.Errorf("it returns %d", verdict)
		}
		return err
	})
	must(t, err)
	var counted uint64
	if err := counts.Lookup(uint32(0), &counted); err != nil || counted != runs {
		t.Errorf("%d runs are counted, want %d; %v", counted, runs, err)
	}
}
