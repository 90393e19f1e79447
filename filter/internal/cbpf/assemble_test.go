package cbpf

import (
	"testing"
)

// Jumps lead to the right block if their targets are within the reach of a classic jump, beyond it,
// and if the relay for one exit moves the other beyond it.
func TestFarExits(t *testing.T) {
	t.Parallel()
	for instructions := 240; instructions < 280; instructions++ {
		near, far := row(instructions/2, newBlock(RetK, 1)), row(200, newBlock(RetK, 2))
		near.stmts = near.stmts[:instructions%2]
		join := near
		for join.exits[onTrue].exits[onTrue] != nil {
			join = join.exits[onTrue]
		}
		end := join.exits[onTrue]
		join.exits[onTrue], join.exits[onFalse] = branch(newBlock(Jeq, 7), end, far), far
		test := newBlock(Jeq, 7)
		test.exits = [2]*block{end, far}
		first := newBlock(Jgt, 5, op(LdLen, 0))
		first.exits = [2]*block{test, near} // the true exit comes next
		prog := assemble(first)
		for length, want := range map[uint32]uint32{0: 2, 7: 1, 8: 2} {
			if got := Interpret(prog, nil, length); got != want {
				t.Errorf("%d instructions between, length %d: returns %d, want %d", instructions, length, got, want)
			}
		}
	}
}

// row is n blocks of two instructions, one after the other, and then last.
func row(n int, last *block) *block {
	for range n {
		b := newBlock(Jeq, 0, op(Tax, 0))
		b.exits = [2]*block{last, last}
		last = b
	}
	return last
}
