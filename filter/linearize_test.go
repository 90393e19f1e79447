package filter

import (
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// filler is n instructions that do nothing to A.
func filler(n int) []*stmt {
	var out []*stmt
	for range n {
		out = append(out, op(cbpf.LdxImm, 1))
	}
	return out
}

// TestFarJumps has either exit of a test, and both, on each side of the 255 instructions a classic jump reaches. It catches an
// offset cut to 8 bits, and one that does not count the jumps put behind the test.
func TestFarJumps(t *testing.T) {
	for n := 250; n <= 260; n++ {
		first := func() *block {
			return newBlock(cbpf.ClassJMP|cbpf.OpJeq, 1, op(cbpf.ClassLD|cbpf.ModeABS|cbpf.SizeB, 0))
		}
		ret := func(k uint32) *block { return newBlock(cbpf.RetK, k) }
		connect := func(b, yes, no *block) *block {
			b.edges[onTrue].to, b.edges[onFalse].to = yes, no
			return b
		}
		farFalse := func() *block {
			near := ret(1)
			near.stmts = filler(n)
			return connect(first(), near, ret(2))
		}
		farTrue := func() *block {
			yes := ret(1)
			middle := connect(newBlock(cbpf.ClassJMP|cbpf.OpJeq, 7, filler(n)...), yes, ret(2))
			return connect(first(), yes, middle)
		}
		farBoth := func() *block {
			yes, no := ret(1), ret(2)
			third := connect(newBlock(cbpf.ClassJMP|cbpf.OpJeq, 7, filler(n)...), yes, no)
			second := connect(newBlock(cbpf.ClassJMP|cbpf.OpJeq, 1, op(cbpf.ClassLD|cbpf.ModeABS|cbpf.SizeB, 0)), yes, no)
			return connect(newBlock(cbpf.ClassJMP|cbpf.OpJeq, 9, op(cbpf.ClassLD|cbpf.ModeABS|cbpf.SizeB, 1)), third, second)
		}
		for name, root := range map[string]*block{"false": farFalse(), "true": farTrue(), "both": farBoth()} {
			prog := linearize(root)
			if err := Check(prog); err != nil {
				t.Errorf("%s, %d: %v", name, n, err)
				continue
			}
			for _, pkt := range [][]byte{{1, 0}, {0, 0}} {
				if got, want := filtertest.Interpret(prog, pkt, 2), 2-uint32(pkt[0]); got != want {
					t.Errorf("%s, %d: %d on %v, want %d", name, n, got, pkt, want)
				}
			}
		}
	}
}
