package ebpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// threeFunctions is a program that returns filter(ctx, 40) + 2. It has functions before and after
// filter, a jump over its call, and a label inside it.
func threeFunctions() *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Name: "three", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("three"),
		asm.Mov.Imm(asm.R2, 40),
		asm.JEq.Imm(asm.R6, 0, "none"),
		asm.Call.Label("filter"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Call.Label("after"),
		asm.Add.Reg(asm.R0, asm.R7),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 100).WithSymbol("none"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 7).WithSymbol("filter"),
		asm.JEq.Imm(asm.R1, 0, "label"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 9).WithSymbol("label"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 2).WithSymbol("after"),
		asm.Return(),
	}}
}

// runSpec loads a program and returns its result for a packet of 64 bytes.
func runSpec(t *testing.T, spec *ebpf.ProgramSpec) uint32 {
	t.Helper()
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestReplace catches a function that is cut short or that swallows its neighbour. There are
// functions before and after the replaced one, and labels inside it.
func TestReplace(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	body, err := Translate(&filter.Program{Instructions: []bpf.RawInstruction{{Op: cbpf.LdLen}, {Op: cbpf.RetA}}})
	if err != nil {
		t.Fatal(err)
	}
	spec := threeFunctions()
	for range 2 { // the second time replaces the instructions of the first
		if err := Replace(spec, "filter", body); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := len(spec.Instructions), 10+len(body)+2; got != want {
		t.Errorf("program has %d instructions, want %d", got, want)
	}
	if body[0].Symbol() != "" {
		t.Error("Replace changed its argument")
	}
	if got := runSpec(t, spec); got != 42 {
		t.Errorf("program returns %d, want 42", got)
	}
}

// TestInline catches jumps with wrong targets, a body placed inside a neighbour, and a function
// that is still called.
func TestInline(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, test := range []struct {
		name    string
		prog    []bpf.RawInstruction
		want    uint32
		inlined bool
	}{
		{"a length", []bpf.RawInstruction{{Op: cbpf.LdLen}, {Op: cbpf.RetA}}, 42, true},
		{"a constant", []bpf.RawInstruction{{Op: cbpf.RetK, K: 262144}}, 3, true},
		{"none", []bpf.RawInstruction{{Op: cbpf.RetK}}, 2, true},
		{"several", []bpf.RawInstruction{{Op: cbpf.LdLen}, {Op: cbpf.ClassJMP | cbpf.OpJeq, K: 40, Jf: 1}, {Op: cbpf.RetK, K: 9}, {Op: cbpf.RetK}}, 3, true},
		{"behind the end", []bpf.RawInstruction{{Op: cbpf.LdAbs | cbpf.SizeB, K: 64}, {Op: cbpf.RetK, K: 1}}, 2, true},
		{"on the stack", []bpf.RawInstruction{{Op: cbpf.LdLen}, {Op: cbpf.St, K: 3}, {Op: cbpf.LdMem, K: 3}, {Op: cbpf.RetA}}, 42, false},
	} {
		body, err := Translate(&filter.Program{Instructions: test.prog})
		if err != nil {
			t.Fatal(err)
		}
		before, spec := slices.Clone(body), threeFunctions()
		if err := Inline(spec, "filter", body); err != nil {
			t.Fatal(err)
		}
		if inlined := len(callsOf(spec.Instructions, "filter")) == 0; inlined != test.inlined {
			t.Errorf("%s: inlined %t", test.name, inlined)
		}
		if got := runSpec(t, spec); got != test.want {
			t.Errorf("%s: program returns %d, want %d\n%v", test.name, got, test.want, spec.Instructions)
		}
		if !slices.Equal(before, body) {
			t.Errorf("%s: Inline changed its argument", test.name)
		}
	}
}

// A function that cannot be inlined is called; if it cannot be called either, Inline returns an
// error.
func TestInlineCalls(t *testing.T) {
	t.Parallel()
	body, err := Translate(&filter.Program{Instructions: []bpf.RawInstruction{{Op: cbpf.LdLen}, {Op: cbpf.RetA}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]putter{"Replace": Replace, "Inline": Inline} {
		if put(threeFunctions(), "nothing", body) == nil || put(threeFunctions(), "filter", nil) == nil {
			t.Errorf("%s takes a function that does not exist, or no body", name)
		}
	}
	with := func(first asm.Instruction) asm.Instructions { return slices.Insert(slices.Clone(body), 0, first) }
	for _, test := range []struct {
		name  string
		body  asm.Instructions
		calls int
	}{
		{"a function that is called twice", body, 2},
		{"a call", with(asm.FnKtimeGetNs.Call()), 1},
		{"a name", with(asm.Mov.Imm(asm.R0, 0).WithSymbol("named")), 1},
		{"a register that calls keep", with(asm.Mov.Imm(asm.R6, 0)), 1},
		{"a body that no jump reaches across", slices.Repeat(body, 20_000), 1},
	} {
		spec := threeFunctions()
		for range test.calls - 1 {
			spec.Instructions = slices.Insert(spec.Instructions, 3, asm.Call.Label("filter"))
		}
		if err := Inline(spec, "filter", test.body); err != nil || len(callsOf(spec.Instructions, "filter")) != test.calls {
			t.Errorf("%s: %v, %d calls", test.name, err, len(callsOf(spec.Instructions, "filter")))
		}
	}
}
