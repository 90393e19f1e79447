package ebpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The types of the stubs' functions.
var (
	integer  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	unsigned = &btf.Int{Name: "unsigned int", Size: 4}
	context  = &btf.Pointer{Target: &btf.Struct{Name: "xdp_md", Size: 24}}
)

// function is a global function that returns an int.
func function(name string, params ...btf.FuncParam) *btf.Func {
	return &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: integer, Params: params}}
}

// stub is a program as compiled by clang: xdp calls the global function filter(ctx, wire_len), and
// returns its result.
func stub() *ebpf.ProgramSpec {
	main := function("xdp", btf.FuncParam{Name: "ctx", Type: context})
	filter := function("filter", btf.FuncParam{Name: "ctx", Type: context}, btf.FuncParam{Name: "len", Type: unsigned})
	return &ebpf.ProgramSpec{
		Name: "xdp", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.LoadMem(asm.R2, asm.R1, 4, asm.Word).WithSymbol("xdp"), main),
			asm.LoadMem(asm.R3, asm.R1, 0, asm.Word),
			asm.Sub.Reg(asm.R2, asm.R3),
			asm.Call.Label("filter"),
			asm.Return(),
			btf.WithFuncMetadata(asm.Mov.Reg(asm.R0, asm.R2).WithSymbol("filter"), filter),
			asm.Return(),
		},
	}
}

// A putter is Replace or Inline.
type putter func(spec *ebpf.ProgramSpec, symbol string, insns asm.Instructions) error

// loadFilter translates a classic program, and loads it in place of the stub's function.
func loadFilter(tb testing.TB, prog []bpf.RawInstruction, put putter) *ebpf.Program {
	tb.Helper()
	body, err := Translate(&filter.Program{Instructions: prog})
	if err != nil {
		tb.Fatalf("%v\n%s", err, filter.Listing(prog))
	}
	spec := stub()
	if err := put(spec, "filter", body); err != nil {
		tb.Fatal(err)
	}
	return loadSpec(tb, spec, prog, body)
}

// loadSpec loads a program. If the verifier refuses it, the test fails with the verifier's log.
func loadSpec(tb testing.TB, spec *ebpf.ProgramSpec, prog []bpf.RawInstruction, body asm.Instructions) *ebpf.Program {
	tb.Helper()
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		var ve *ebpf.VerifierError
		if errors.As(err, &ve) {
			tb.Fatalf("%+v\n%s\n%v", ve, filter.Listing(prog), body)
		}
		tb.Fatalf("%v\n%s", err, filter.Listing(prog))
	}
	tb.Cleanup(func() { p.Close() })
	return p
}

// minimalFrame is the shortest frame that BPF_PROG_RUN takes for XDP.
const minimalFrame = 14

// compareKernel runs a program in the kernel and in the interpreter: on the packet, as a function
// and inlined, and inlined on a copy of the packet. It counts the packets that match.
func compareKernel(tb testing.TB, what string, prog []bpf.RawInstruction, pkts [][]byte) (matches int) {
	tb.Helper()
	same := func(got, want uint32) bool { return got == want }
	alike := func(got, want uint32) bool { return (got == 0) == (want == 0) }
	if !testnet.Emulated() { // the verifier treats functions alike on all kernels
		compareLoaded(tb, what, loadFilter(tb, prog, Replace), prog, pkts, same)
	}
	compareLoaded(tb, what+" on a copy", loadBuffer(tb, prog), prog, pkts, alike)
	return compareLoaded(tb, what+" inlined", loadFilter(tb, prog, Inline), prog, pkts, alike)
}

// compareLoaded is the part of compareKernel for one loaded program.
func compareLoaded(tb testing.TB, what string, p *ebpf.Program, prog []bpf.RawInstruction, pkts [][]byte, isRight func(got, want uint32) bool) (matches int) {
	tb.Helper()
	defer p.Close()
	for _, pkt := range pkts {
		if len(pkt) < minimalFrame {
			continue
		}
		got, err := p.Run(&ebpf.RunOptions{Data: pkt})
		if err != nil {
			tb.Fatal(err)
		}
		if want := cbpf.Interpret(prog, pkt, uint32(len(pkt))); !isRight(got, want) {
			tb.Fatalf("%s: kernel %d, interpreter %d on %x\n%s", what, got, want, pkt, filter.Listing(prog))
		}
		if got != 0 {
			matches++
		}
	}
	return matches
}
