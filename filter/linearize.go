package filter

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// linearize lays the blocks out, each before those it jumps to. A classic conditional jump reaches 255 instructions; a block
// whose exit is farther away gets an unconditional jump behind it, which makes the program longer, so this goes on until all
// jumps reach.
func linearize(root *block) []bpf.RawInstruction {
	order := layout(root)
	for {
		n := 0
		for _, b := range order {
			b.place = n
			n += b.size()
		}
		if !lengthen(order) {
			break
		}
	}
	var out []bpf.RawInstruction
	for _, b := range order {
		out = append(out, b.encode()...)
	}
	return out
}

// layout is the order of the blocks: the true exit follows where nothing else forbids it.
func layout(root *block) []*block {
	var reversed []*block
	seen := map[*block]bool{}
	var visit func(b *block)
	visit = func(b *block) {
		if b == nil || seen[b] {
			return
		}
		seen[b] = true
		visit(b.to(onFalse))
		visit(b.to(onTrue))
		reversed = append(reversed, b)
	}
	visit(root)
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	for _, b := range reversed {
		b.stmts = compact(b.stmts)
	}
	return reversed
}

func (b *block) size() int {
	n := len(b.stmts) + 1
	for _, long := range b.long {
		if long {
			n++
		}
	}
	return n
}

// skip is the distance from the block's conditional jump.
func (b *block) skip(e int) int { return b.to(e).place - (b.place + len(b.stmts)) - 1 }

// lengthen finds exits that are out of reach.
func lengthen(order []*block) bool {
	changed := false
	for _, b := range order {
		for e := range b.edges {
			if b.to(e) != nil && !b.long[e] && b.skip(e) > 255 {
				b.long[e], changed = true, true
			}
		}
	}
	return changed
}

func (b *block) encode() []bpf.RawInstruction {
	var out []bpf.RawInstruction
	for i, s := range b.stmts {
		ins := bpf.RawInstruction{Op: uint16(s.code), K: s.k}
		if s.jt != nil {
			ins.Jt, ins.Jf = b.distance(i, s.jt), b.distance(i, s.jf)
		}
		out = append(out, ins)
	}
	last := bpf.RawInstruction{Op: uint16(b.last.code), K: b.last.k}
	if b.to(onTrue) == nil {
		return append(out, last)
	}
	var far []bpf.RawInstruction
	jump := func(e int) uint8 {
		if !b.long[e] {
			return uint8(b.skip(e))
		}
		far = append(far, bpf.RawInstruction{Op: cbpf.Ja, K: uint32(b.skip(e) - len(far) - 1)})
		return uint8(len(far) - 1)
	}
	last.Jt, last.Jf = jump(onTrue), jump(onFalse)
	return append(append(out, last), far...)
}

// distance is from statement i to another of the same block.
func (b *block) distance(i int, to *stmt) uint8 {
	for j, s := range b.stmts[i+1:] {
		if s == to {
			return uint8(j)
		}
	}
	return 0 // geneveOffsets jumps to statements of its own, and verbatim code keeps them
}
