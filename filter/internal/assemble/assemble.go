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
func Program(first *graph.Block) []bpf.RawInstruction {
	p := program{start: map[*graph.Block]int{}, relays: map[*graph.Block]int{}}
	for _, b := range slices.Backward(layout(first)) {
		p.add(b)
	}
	slices.Reverse(p.code)
	return p.code
}

// layout puts the blocks in order. The true exit comes next unless another constraint forbids it.
func layout(first *graph.Block) []*graph.Block {
	var order []*graph.Block // the last block first
	seen := map[*graph.Block]bool{}
	var visit func(b *graph.Block)
	visit = func(b *graph.Block) {
		if b == nil || seen[b] {
			return
		}
		seen[b] = true
		visit(b.Exits[graph.OnFalse])
		visit(b.Exits[graph.OnTrue])
		order = append(order, b)
	}
	visit(first)
	slices.Reverse(order)
	return order
}

// maxSkip is how many instructions a conditional jump can skip.
const maxSkip = 255

// program is the code from its end: a block is added after everything that it jumps to, so that its
// jumps are known.
type program struct {
	code   []bpf.RawInstruction // the last instruction first
	start  map[*graph.Block]int // where the first instruction of a block is in code
	relays map[*graph.Block]int // where the last added unconditional jump to a block is
}

// skip is how many instructions are between the next one that is added and one in code.
func (p *program) skip(at int) int { return len(p.code) - at - 1 }

// add adds a block before the others.
func (p *program) add(b *graph.Block) {
	last := bpf.RawInstruction{Op: uint16(b.Last.Code), K: b.Last.K}
	if b.Exits[graph.OnTrue] != nil {
		yes, no := p.target(b.Exits[graph.OnTrue]), p.target(b.Exits[graph.OnFalse])
		last.Jt, last.Jf = uint8(p.skip(yes)), uint8(p.skip(no))
	}
	p.code = append(p.code, last)
	for _, s := range slices.Backward(b.Stmts) {
		p.code = append(p.code, bpf.RawInstruction{Op: uint16(s.Code), K: s.K})
	}
	p.start[b] = len(p.code) - 1
}

// target is where the next block jumps to for a block: its start, or an unconditional jump to it if
// that is too far. One such jump serves all blocks that reach it.
func (p *program) target(b *graph.Block) int {
	const reach = maxSkip - 1 // the block's other exit may add an unconditional jump after this one
	at := p.start[b]
	if p.skip(at) <= reach {
		return at
	}
	if relay, ok := p.relays[b]; ok && p.skip(relay) <= reach {
		return relay
	}
	p.code = append(p.code, bpf.RawInstruction{Op: cbpf.Ja, K: uint32(p.skip(at))})
	p.relays[b] = len(p.code) - 1
	return p.relays[b]
}
