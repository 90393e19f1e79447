package assemble_test

import (
	"testing"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/internal/assemble"
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// filler is n instructions that leave A as it is.
func filler(n int) []*graph.Stmt {
	var out []*graph.Stmt
	for range n {
		out = append(out, graph.Op(cbpf.LdxImm, 1))
	}
	return out
}

// TestFarJumps has a test whose true exit, false exit, or both are just within and just beyond the
// 255 instructions that a classic jump reaches. It catches an offset that is cut to 8 bits, and one
// that does not count the jumps after the test.
func TestFarJumps(t *testing.T) {
	t.Parallel()
	for n := 250; n <= 260; n++ {
		first := func() *graph.Block {
			return graph.New(cbpf.Jeq, 1, graph.Op(cbpf.LdAbs|cbpf.SizeB, 0))
		}
		ret := func(k uint32) *graph.Block { return graph.New(cbpf.RetK, k) }
		connect := func(b, yes, no *graph.Block) *graph.Block {
			b.Exits[graph.OnTrue], b.Exits[graph.OnFalse] = yes, no
			return b
		}
		farFalse := func() *graph.Block {
			near := ret(1)
			near.Stmts = filler(n)
			return connect(first(), near, ret(2))
		}
		farTrue := func() *graph.Block {
			yes := ret(1)
			middle := connect(graph.New(cbpf.Jeq, 7, filler(n)...), yes, ret(2))
			return connect(first(), yes, middle)
		}
		farBoth := func() *graph.Block {
			yes, no := ret(1), ret(2)
			third := connect(graph.New(cbpf.Jeq, 7, filler(n)...), yes, no)
			second := connect(graph.New(cbpf.Jeq, 1, graph.Op(cbpf.LdAbs|cbpf.SizeB, 0)), yes, no)
			return connect(graph.New(cbpf.Jeq, 9, graph.Op(cbpf.LdAbs|cbpf.SizeB, 1)), third, second)
		}
		for name, root := range map[string]*graph.Block{"false": farFalse(), "true": farTrue(), "both": farBoth()} {
			prog := assemble.Program(root)
			if err := filter.Check(prog); err != nil {
				t.Errorf("%s, %d: %v", name, n, err)
				continue
			}
			for _, pkt := range [][]byte{{1, 0}, {0, 0}} {
				if got, want := cbpf.Interpret(prog, pkt, 2), 2-uint32(pkt[0]); got != want {
					t.Errorf("%s, %d: %d on %v, want %d", name, n, got, pkt, want)
				}
			}
		}
	}
}
