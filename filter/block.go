package filter

// stmt is one classic instruction without jump offsets. jt and jf are set for jumps inside a block only.
type stmt struct {
	code   int // a classic opcode, or nop
	k      uint32
	jt, jf *stmt
}

// nop marks a deleted instruction.
const nop = -1

// block is straight-line code that ends with a two-way jump or a return.
//
// While an expression is built, a block stands for a tree of tests whose exits are not known yet: head is its first block, the
// exits taken when the expression is true (or false) are chained through the edges themselves, and sense tells which is which.
type block struct {
	stmts []*stmt
	last  stmt    // the jump or return
	edges [2]edge // [onTrue] if the test holds, [onFalse] if not; to is nil behind a return
	head  *block
	sense bool // the edges' meaning is swapped
	flow  flow // what simplify knows
	place int  // index of the first instruction, once linearize knows it
	long  [2]bool
}

// Edges of a block.
const (
	onTrue  = 0
	onFalse = 1
)

func newBlock(code int, k uint32, stmts ...*stmt) *block {
	b := &block{last: stmt{code: code, k: k}, stmts: stmts}
	b.head = b
	return b
}

func op(code int, k uint32) *stmt { return &stmt{code: code, k: k} }

func (b *block) to(e int) *block { return b.edges[e].to }

// open is the edge that continues the chain of open exits: the one taken when the expression is true.
func (b *block) open() *edge {
	if b.sense {
		return &b.edges[onFalse]
	}
	return &b.edges[onTrue]
}

// patch points every open exit of the chain to target.
func patch(chain, target *block) {
	for chain != nil {
		e := chain.open()
		chain, e.to = e.to, target
	}
}

// join appends chain b to chain a.
func join(a, b *block) {
	e := a.open()
	for e.to != nil {
		e = e.to.open()
	}
	e.to = b
}

// and makes y run only where x is true, and gives back the whole. Both are used up.
func and(x, y *block) *block {
	patch(x, y.head)
	x.sense, y.sense = !x.sense, !y.sense
	join(y, x)
	y.sense = !y.sense
	y.head = x.head
	return y
}

// or makes y run only where x is false.
func or(x, y *block) *block {
	x.sense = !x.sense
	patch(x, y.head)
	x.sense = !x.sense
	join(y, x)
	y.head = x.head
	return y
}

func not(x *block) *block {
	x.sense = !x.sense
	return x
}
