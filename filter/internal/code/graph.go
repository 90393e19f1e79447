package code

import (
	"cmp"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// A filter's control-flow graph is made by Generate, rewritten by Optimise, and turned into a
// classic program by Assemble. Its nodes are blocks of classic instructions without jump offsets.

// Stmt is one classic instruction without jump offsets.
type Stmt struct {
	Code int // a classic opcode
	K    uint32
}

// Op makes an instruction.
func Op(code int, k uint32) *Stmt { return &Stmt{Code: code, K: k} }

// Exits of a block.
const (
	OnTrue  = 0
	OnFalse = 1
)

// Block is straight-line code that ends with a two-way jump or a return.
type Block struct {
	Stmts []*Stmt
	Last  Stmt      // the jump or return
	Exits [2]*Block // the targets of the jump; nil after a return

	// While an expression is built, its last block represents all of it, and first is its first
	// block. The exits that leave the expression have no target yet. The exits that are taken when
	// it is true form a chain through the exits themselves, starting at the last block; the exits
	// that are taken when it is false form another. inverted selects which exit of a block is in
	// which chain.
	first    *Block
	inverted bool // OnFalse is the exit that makes the expression true
}

// New makes an expression of one block: stmts, and then the jump.
func New(code int, k uint32, stmts ...*Stmt) *Block {
	b := &Block{Last: Stmt{Code: code, K: k}, Stmts: stmts}
	b.first = b
	return b
}

// goTo makes a block that runs statements and continues at another one.
func goTo(next *Block, stmts ...*Stmt) *Block {
	b := New(cbpf.Ja, 0, stmts...)
	b.Exits = [2]*Block{next, next}
	return b
}

// Close sets the targets of a whole expression: yes if it is true, no if it is false. It returns
// the first block.
func Close(b, yes, no *Block) *Block {
	patch(b, yes)
	patch(Not(b), no)
	return b.first
}

// open returns the exit that continues the chain for a true expression.
func (b *Block) open() **Block {
	if b.inverted {
		return &b.Exits[OnFalse]
	}
	return &b.Exits[OnTrue]
}

// patch points every exit of the chain to target.
func patch(chain, target *Block) {
	for chain != nil {
		exit := chain.open()
		chain, *exit = *exit, target
	}
}

// join appends chain b to chain a.
func join(a, b *Block) {
	exit := a.open()
	for *exit != nil {
		exit = (*exit).open()
	}
	*exit = b
}

// And makes y run only if x is true, and returns the whole. Both arguments are used up. If one of
// them is nil, it returns the other.
func And(x, y *Block) *Block {
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
func Or(x, y *Block) *Block {
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
func Not(x *Block) *Block {
	x.inverted = !x.inverted
	return x
}
