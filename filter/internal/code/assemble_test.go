package code

import (
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Jumps lead to the right block if their targets are within the reach of a classic jump, beyond it,
// and if the relay for one exit moves the other beyond it.
func TestFarExits(t *testing.T) {
	t.Parallel()
	for instructions := 240; instructions < 280; instructions++ {
		near, far := row(instructions/2, New(cbpf.RetK, 1)), row(200, New(cbpf.RetK, 2))
		near.Stmts = near.Stmts[:instructions%2]
		join := near
		for join.Exits[OnTrue].Exits[OnTrue] != nil {
			join = join.Exits[OnTrue]
		}
		end := join.Exits[OnTrue]
		join.Exits[OnTrue], join.Exits[OnFalse] = Close(New(cbpf.Jeq, 7), end, far), far
		test := New(cbpf.Jeq, 7)
		test.Exits = [2]*Block{end, far}
		first := New(cbpf.Jgt, 5, Op(cbpf.LdLen, 0))
		first.Exits = [2]*Block{test, near} // the true exit comes next
		prog := Assemble(first)
		for length, want := range map[uint32]uint32{0: 2, 7: 1, 8: 2} {
			if got := cbpf.Interpret(prog, nil, length); got != want {
				t.Errorf("%d instructions between, length %d: returns %d, want %d", instructions, length, got, want)
			}
		}
	}
}

// row is n blocks of two instructions, one after the other, and then last.
func row(n int, last *Block) *Block {
	for range n {
		b := New(cbpf.Jeq, 0, Op(cbpf.Tax, 0))
		b.Exits = [2]*Block{last, last}
		last = b
	}
	return last
}
