package cbpf

import (
	"cmp"
)

// A filter's control-flow graph is made by Generate, rewritten by Optimise, and turned into a
// classic program by Assemble. Its nodes are blocks of classic instructions without jump offsets.

// stmt is one classic instruction without jump offsets.
type stmt struct {
	Code int // a classic opcode
	K    uint32
}

// op makes an instruction.
func op(code int, k uint32) *stmt { return &stmt{Code: code, K: k} }

// Exits of a block.
const (
	onTrue  = 0
	onFalse = 1
)

// block is straight-line code that ends with a two-way jump or a return.
type block struct {
	Stmts []*stmt
	Last  stmt      // the jump or return
	Exits [2]*block // the targets of the jump; nil after a return

	// While an expression is built, its last block represents all of it, and first is its first
	// block. The exits that leave the expression have no target yet. The exits that are taken when
	// it is true form a chain through the exits themselves, starting at the last block; the exits
	// that are taken when it is false form another. inverted selects which exit of a block is in
	// which chain.
	first    *block
	inverted bool // OnFalse is the exit that makes the expression true
}

// returns reports whether the block ends the filter.
func (b *block) returns() bool { return b.Last.Code&ClassMask == ClassRET }

// rejects reports whether the block ends the filter with "no match".
func (b *block) rejects() bool { return b.Last.Code == RetK && b.Last.K == 0 }

// newBlock makes an expression of one block: stmts, and then the jump.
func newBlock(code int, k uint32, stmts ...*stmt) *block {
	b := &block{Last: stmt{Code: code, K: k}, Stmts: stmts}
	b.first = b
	return b
}

// goTo makes a block that runs statements and continues at another one.
func goTo(next *block, stmts ...*stmt) *block {
	b := newBlock(Ja, 0, stmts...)
	b.Exits = [2]*block{next, next}
	return b
}

// branch sets the targets of a whole expression: yes if it is true, no if it is false. It returns
// the first block.
func branch(b, yes, no *block) *block {
	patch(b, yes)
	patch(not(b), no)
	return b.first
}

// open returns the exit that continues the chain for a true expression.
func (b *block) open() **block {
	if b.inverted {
		return &b.Exits[onFalse]
	}
	return &b.Exits[onTrue]
}

// patch points every exit of the chain to target.
func patch(chain, target *block) {
	for chain != nil {
		exit := chain.open()
		chain, *exit = *exit, target
	}
}

// join appends chain b to chain a.
func join(a, b *block) {
	exit := a.open()
	for *exit != nil {
		exit = (*exit).open()
	}
	*exit = b
}

// And makes y run only if x is true, and returns the whole. Both arguments are used up. If one of
// them is nil, it returns the other.
func and(x, y *block) *block {
	if x == nil || y == nil {
		return cmp.Or(x, y)
	}
	patch(x, y.first)
	x.inverted, y.inverted = !x.inverted, !y.inverted
	join(y, x)
	y.inverted = !y.inverted
	y.first = x.first
	return y
}

// Or makes y run only if x is false, and returns the whole. Both arguments are used up. If one of
// them is nil, it returns the other.
func or(x, y *block) *block {
	if x == nil || y == nil {
		return cmp.Or(x, y)
	}
	x.inverted = !x.inverted
	patch(x, y.first)
	x.inverted = !x.inverted
	join(y, x)
	y.first = x.first
	return y
}

// Not negates an expression.
func not(x *block) *block {
	x.inverted = !x.inverted
	return x
}
