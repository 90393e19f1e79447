package cbpf

import (
	"cmp"
)

// stmt is a classic instruction without jump offsets.
type stmt struct {
	Code int // the opcode
	K    uint32
}

// op makes an instruction.
func op(code int, k uint32) *stmt { return &stmt{Code: code, K: k} }

// Exits of a block.
const (
	onTrue  = 0
	onFalse = 1
)

// block is a node of the control-flow graph: straight-line code that ends with a two-way jump or a
// return.
type block struct {
	stmts []*stmt
	last  stmt      // the jump or return
	exits [2]*block // the targets of the jump; nil after a return

	// While an expression is built, its last block represents all of it, and first is its first
	// block. The exits that leave the expression have no target yet, and form two linked lists,
	// both from the last block: one of the exits that are taken when the expression is true, one of
	// the others. Until then exits[i] is the block with the list's next exit. inverted selects
	// which exit of a block is in which list.
	first    *block
	inverted bool // onFalse is the exit that makes the expression true
}

// returns reports whether the block ends the filter.
func (b *block) returns() bool { return b.last.Code&ClassMask == ClassRET }

// rejects reports whether the block ends the filter with "no match".
func (b *block) rejects() bool { return b.last.Code == RetK && b.last.K == 0 }

// newBlock makes an expression of one block: stmts, and then a jump or return.
func newBlock(code int, k uint32, stmts ...*stmt) *block {
	b := &block{last: stmt{Code: code, K: k}, stmts: stmts}
	b.first = b
	return b
}

// goTo makes a block that runs statements and continues at another one.
func goTo(next *block, stmts ...*stmt) *block {
	b := newBlock(Ja, 0, stmts...)
	b.exits = [2]*block{next, next}
	return b
}

// branch completes an expression: it continues at yes if it is true, and at no if it is false.
// branch returns the first block.
func branch(b, yes, no *block) *block {
	patch(b, yes)
	patch(not(b), no)
	return b.first
}

// open returns the block's exit in the list for a true expression.
func (b *block) open() **block {
	if b.inverted {
		return &b.exits[onFalse]
	}
	return &b.exits[onTrue]
}

// patch points every exit of the list that begins with a block to target.
func patch(list, target *block) {
	for list != nil {
		exit := list.open()
		list, *exit = *exit, target
	}
}

// join appends list b to list a.
func join(a, b *block) {
	exit := a.open()
	for *exit != nil {
		exit = (*exit).open()
	}
	*exit = b
}

// and returns "x and y", which evaluates y only if x is true. Both arguments become parts of the
// result. If one of them is nil, and returns the other.
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

// or returns "x or y", which evaluates y only if x is false; see and.
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

// not negates an expression.
func not(x *block) *block {
	x.inverted = !x.inverted
	return x
}
