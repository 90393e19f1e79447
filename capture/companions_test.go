package capture

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// counting is a companion that counts in an array's only element, by a function of its own.
func counting(counter *ebpf.Map) *ebpf.ProgramSpec {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	function := func(name string) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
			Return: integer, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md", Size: 24}}}},
		}}
	}
	return &ebpf.ProgramSpec{
		Name: "counting", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("counting"), function("counting")),
			asm.Call.Label("count"),
			asm.Mov.Imm(asm.R0, 1), // XDP_DROP, which nobody looks at
			asm.Return(),
			btf.WithFuncMetadata(asm.StoreImm(asm.RFP, -4, 0, asm.Word).WithSymbol("count"), function("count")),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, counter.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
		},
	}
}

// Two companions that have functions and labels of the same names run for every packet, also for
// those that the filter leaves out, and change nothing about them.
func TestCompanions(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	var counters [2]*ebpf.Map
	for i := range counters {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		must(t, err)
		defer m.Close()
		counters[i] = m
	}
	p := newProgramTest(t, Options{Filter: "tcp", Companions: func(src Source) (c Companions, err error) {
		if src.Name == "lo" {
			c.First = []*ebpf.ProgramSpec{counting(counters[0]), counting(counters[1])}
		}
		return c, nil
	}})
	for source := range 2 {
		if v := p.run(source, testnet.UDPFrame(100, 0), 5); v != 2 {
			t.Errorf("verdict %v", v)
		}
	}
	for i, m := range counters {
		var n uint64
		if err := m.Lookup(uint32(0), &n); err != nil || n != 5 {
			t.Errorf("companion %d has seen %d packets, %v", i, n, err)
		}
	}
	for i, a := range p.accounts() {
		if a.Seen != 5 || a.FilteredOut != 5 {
			t.Errorf("source %d: %+v", i, a)
		}
	}
}
