package ebpf

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
)

const bufferSize = 4096

// loadBuffer translates a classic program for a buffer, and inlines it into an XDP program that
// copies the packet into that buffer.
func loadBuffer(tb testing.TB, prog []bpf.RawInstruction) *ebpf.Program {
	tb.Helper()
	body, err := TranslateBuffer(&filter.Program{Instructions: prog}, bufferSize)
	if err != nil {
		tb.Fatalf("%v\n%s", err, filter.Listing(prog))
	}
	buffer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: bufferSize, MaxEntries: 1})
	if err != nil {
		tb.Fatal(err)
	}
	defer buffer.Close()
	spec := bufferStub(buffer)
	if err := Inline(spec, "filter", body); err != nil {
		tb.Fatal(err)
	}
	return loadSpec(tb, spec, prog, body)
}

// bufferStub is a program as clang would make it: xdp copies up to bufferSize bytes, and returns
// filter(head, wire_len, length).
func bufferStub(buffer *ebpf.Map) *ebpf.ProgramSpec {
	char := &btf.Int{Name: "unsigned char", Size: 1, Encoding: btf.Char}
	bytes := &btf.Array{Index: unsigned, Type: char, Nelems: bufferSize}
	head := &btf.Struct{Name: "head", Size: bufferSize, Members: []btf.Member{{Name: "bytes", Type: bytes}}}
	main := function("xdp", btf.FuncParam{Name: "ctx", Type: context})
	filter := function("filter", btf.FuncParam{Name: "head", Type: &btf.Pointer{Target: head}},
		btf.FuncParam{Name: "wire_len", Type: unsigned}, btf.FuncParam{Name: "length", Type: unsigned})
	return &ebpf.ProgramSpec{
		Name: "xdp", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("xdp"), main),
			asm.LoadMem(asm.R7, asm.R1, 4, asm.Word),
			asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
			asm.Sub.Reg(asm.R7, asm.R2),
			asm.Mov.Reg(asm.R9, asm.R7), // the whole length
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, buffer.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.Mov.Reg(asm.R8, asm.R0),
			asm.JLE.Imm(asm.R7, bufferSize, "fits"),
			asm.Mov.Imm(asm.R7, bufferSize),
			// Not JEq with 0: Linux 6.1's verifier does not raise the value's minimum after that.
			asm.JLT.Imm(asm.R7, 1, "out").WithSymbol("fits"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Reg(asm.R3, asm.R8),
			asm.Mov.Reg(asm.R4, asm.R7),
			asm.FnXdpLoadBytes.Call(),
			asm.Mov.Reg(asm.R1, asm.R8),
			asm.Mov.Reg(asm.R2, asm.R9),
			asm.Mov.Reg(asm.R3, asm.R7),
			asm.Call.Label("filter"),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
			btf.WithFuncMetadata(asm.Mov.Reg(asm.R0, asm.R2).WithSymbol("filter"), filter),
			asm.Return(),
		},
	}
}
