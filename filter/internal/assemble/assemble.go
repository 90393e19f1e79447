// Package assemble is the last stage: it turns a control-flow graph into a classic program. It lays
// out the blocks one after the other, and computes the jumps' offsets.
package assemble

import (
	"slices"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// Program assembles the graph that begins with block first. Each block comes before its jump
// targets, because classic jumps only go forward.
//
// A classic conditional jump reaches 255 instructions. A block with a farther exit gets an
// unconditional jump after it. That makes the program longer and can put other exits out of reach,
// so blocks are placed again until all jumps reach.
func Program(first *graph.Block) []bpf.RawInstruction {
	blocks := layout(first)
	for place(blocks); lengthen(blocks); place(blocks) {
	}
	var out []bpf.RawInstruction
	for _, b := range blocks {
		out = b.encode(out)
	}
	return out
}

// placed is a block with its position in the program.
type placed struct {
	*graph.Block
	stmts []*graph.Stmt // without the deleted ones
	exits [2]*placed    // nil after a return
	start int           // index of the first instruction
	long  [2]bool       // the exit has an unconditional jump
}

// layout puts the blocks in order. The true exit comes next unless another constraint forbids it.
func layout(first *graph.Block) []*placed {
	var order []*placed // the last block first
	seen := map[*graph.Block]*placed{}
	var visit func(b *graph.Block) *placed
	visit = func(b *graph.Block) *placed {
		if b == nil || seen[b] != nil {
			return seen[b]
		}
		p := &placed{Block: b}
		for _, s := range b.Stmts {
			if s.Code != graph.Nop {
				p.stmts = append(p.stmts, s)
			}
		}
		seen[b] = p
		p.exits[graph.OnFalse] = visit(b.Exits[graph.OnFalse])
		p.exits[graph.OnTrue] = visit(b.Exits[graph.OnTrue])
		order = append(order, p)
		return p
	}
	visit(first)
	slices.Reverse(order)
	return order
}

// place computes where every block starts.
func place(blocks []*placed) {
	n := 0
	for _, b := range blocks {
		b.start = n
		n += len(b.stmts) + 1
		for _, long := range b.long {
			if long {
				n++
			}
		}
	}
}

// skip is the number of instructions between the block's conditional jump and one of its exits.
func (b *placed) skip(exit int) int { return b.exits[exit].start - (b.start + len(b.stmts)) - 1 }

// lengthen finds exits that are out of reach, and tells whether there were any.
func lengthen(blocks []*placed) (found bool) {
	for _, b := range blocks {
		for exit, to := range b.exits {
			if to != nil && !b.long[exit] && b.skip(exit) > 255 {
				b.long[exit], found = true, true
			}
		}
	}
	return found
}

// encode appends the block's instructions.
func (b *placed) encode(out []bpf.RawInstruction) []bpf.RawInstruction {
	for i, s := range b.stmts {
		ins := bpf.RawInstruction{Op: uint16(s.Code), K: s.K}
		if s.Jt != nil {
			ins.Jt, ins.Jf = b.distance(i, s.Jt), b.distance(i, s.Jf)
		}
		out = append(out, ins)
	}
	last := bpf.RawInstruction{Op: uint16(b.Last.Code), K: b.Last.K}
	if b.exits[graph.OnTrue] == nil {
		return append(out, last)
	}
	var far []bpf.RawInstruction
	jump := func(exit int) uint8 {
		if !b.long[exit] {
			return uint8(b.skip(exit))
		}
		far = append(far, bpf.RawInstruction{Op: cbpf.Ja, K: uint32(b.skip(exit) - len(far) - 1)})
		return uint8(len(far) - 1)
	}
	last.Jt, last.Jf = jump(graph.OnTrue), jump(graph.OnFalse)
	return append(append(out, last), far...)
}

// distance is the number of statements between statement i and a later one of the same block. The
// later one is always there: only code that package optimise has not touched jumps inside a block.
func (b *placed) distance(i int, to *graph.Stmt) uint8 {
	return uint8(slices.Index(b.stmts[i+1:], to))
}
