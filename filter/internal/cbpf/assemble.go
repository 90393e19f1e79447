package cbpf

import (
	"slices"

	"golang.org/x/net/bpf"
)

// assemble turns the graph that begins with block first into a classic program: it lays out the
// blocks one after the other, and computes the jumps' offsets. Each block comes before its jump
// targets, because classic jumps only go forward.
func assemble(first *block) []bpf.RawInstruction {
	p := program{start: map[*block]int{}, relays: map[*block]int{}}
	for _, b := range slices.Backward(layout(first)) {
		p.add(b)
	}
	slices.Reverse(p.code)
	return p.code
}

// layout orders the blocks so that each comes before its jump targets. The target of the true exit
// is the next block unless it must come later.
func layout(first *block) []*block {
	var order []*block // the last block first
	seen := map[*block]bool{}
	var visit func(b *block)
	visit = func(b *block) {
		if b == nil || seen[b] {
			return
		}
		seen[b] = true
		visit(b.exits[onFalse])
		visit(b.exits[onTrue])
		order = append(order, b)
	}
	visit(first)
	slices.Reverse(order)
	return order
}

// maxSkip is the maximum number of instructions that a conditional jump can skip.
const maxSkip = 255

// program is the code in reverse: a block is added after its jump targets, so that the offsets of
// its jumps can be computed.
type program struct {
	code   []bpf.RawInstruction // the last instruction first
	start  map[*block]int       // index in code of a block's first instruction
	relays map[*block]int       // index of the unconditional jump to a block that was added last
}

// skip returns the number of instructions between the next added instruction and one in code.
func (p *program) skip(at int) int { return len(p.code) - at - 1 }

// add adds a block before the others.
func (p *program) add(b *block) {
	last := bpf.RawInstruction{Op: uint16(b.last.Code), K: b.last.K}
	switch to := b.exits[onTrue]; {
	case b.last.Code == Ja:
		last.K = uint32(p.skip(p.start[to]))
	case to != nil:
		yes, no := p.target(b.exits[onTrue]), p.target(b.exits[onFalse])
		last.Jt, last.Jf = uint8(p.skip(yes)), uint8(p.skip(no))
	}
	if b.last.Code != Ja || last.K > 0 {
		p.code = append(p.code, last)
	}
	for _, s := range slices.Backward(b.stmts) {
		p.code = append(p.code, bpf.RawInstruction{Op: uint16(s.Code), K: s.K})
	}
	p.start[b] = len(p.code) - 1
}

// target returns the index to which the next block jumps for a block: its start, or an
// unconditional jump to it if that is too far. One such jump serves all blocks that reach it.
func (p *program) target(b *block) int {
	const reach = maxSkip - 1 // the block's other exit may add an unconditional jump after this one
	at := p.start[b]
	if p.skip(at) <= reach {
		return at
	}
	if relay, ok := p.relays[b]; ok && p.skip(relay) <= reach {
		return relay
	}
	p.code = append(p.code, bpf.RawInstruction{Op: Ja, K: uint32(p.skip(at))})
	p.relays[b] = len(p.code) - 1
	return p.relays[b]
}
