// Package cbpf compiles the tree of an expression to classic BPF. It also defines the opcodes of
// classic BPF and their semantics, for packages that check, run and translate programs. The stages:
//
//	Resolve, ResolveSets   identifiers to numbers: identifier.go, names.go, set.go
//	generate               tree to a control-flow graph: generate.go, and a file for each header
//	optimise               graph to a smaller graph: optimise.go, and the files that it lists
//	assemble               graph to a program: assemble.go
//
// Tests and loads come in libpcap's order, which users can see: a packet that ends before the bytes
// of a test does not match, and is not tested further.
package cbpf

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// Options are the part of filter.Options that Compile needs.
type Options struct {
	SnapLen     uint32 // the return value for a match
	Netmask     []byte // 4 bytes, or nil
	Outbound    bool   // compile for sent packets
	VLANAware   bool
	Fragments   bool
	VXLANPort   uint32 // a port besides VXLAN's own; 0 = none
	Link        headers.Link
	Unoptimised bool
}

// Compile turns a tree into a program; nil is the tree of the empty expression. It runs after
// Resolve and ResolveSets, and raises a fault if the expression cannot be compiled.
func Compile(root syntax.Expr, o Options) []bpf.RawInstruction {
	first := generate(root, o)
	if !o.Unoptimised {
		first = optimise(first)
		if first.rejects() {
			syntax.Fault{Message: "expression rejects all packets", Kind: syntax.ErrNothing}.Throw()
		}
	}
	prog := assemble(first)
	if len(prog) > MaxInstructions {
		syntax.Raise("join networks instead of hosts, or split the filter",
			"expression compiles to %d instructions, the kernel takes %d", len(prog), MaxInstructions)
	}
	return prog
}
