package optimise

import (
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// TestPullUp has the graph that pullUp's comment draws, and one where b also tests v. It catches a
// test that is not moved, or that is lost when it moves.
func TestPullUp(t *testing.T) {
	t.Parallel()
	port, length := graph.Op(cbpf.LdAbs|cbpf.SizeH, 36), graph.Op(cbpf.LdLen, 0)
	for _, test := range []struct {
		name   string
		values []*graph.Stmt // what each test of the chain compares
		want   []int         // the order of the tests afterwards
	}{
		{"drawn", []*graph.Stmt{port, length, port, length}, []int{0, 2, 1, 3}},
		{"b tests v", []*graph.Stmt{port, port, length, port}, []int{0, 1, 3, 2}},
		{"nothing to pull", []*graph.Stmt{port, length, length, length}, []int{0, 1, 2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			match, next := graph.New(cbpf.RetK, 1), graph.New(cbpf.RetK, 0)
			blocks := make([]*graph.Block, len(test.values))
			for i := len(blocks) - 1; i >= 0; i-- {
				value := *test.values[i]
				blocks[i] = graph.New(cbpf.Jeq, uint32(i), &value)
				blocks[i].Exits = [2]*graph.Block{graph.OnTrue: match, graph.OnFalse: next}
				next = blocks[i]
			}
			o := newOptimiser(blocks[0])
			o.findLevels()
			o.findDominators()
			o.findUses()
			o.findInEdges()
			o.numbering.reset()
			o.down(func(n *node) { o.evaluate(n, false) })
			o.pullUp(o.root.to(graph.OnFalse), graph.OnTrue)

			b := o.finish()
			for i, want := range test.want {
				if b != blocks[want] {
					t.Errorf("position %d: want test %d, got block %+v", i, want, b.Last)
				}
				if b.Exits[graph.OnTrue] != match {
					t.Errorf("position %d does not jump to the match", i)
				}
				b = b.Exits[graph.OnFalse]
			}
			if b.Last.Code != cbpf.RetK {
				t.Errorf("after the chain comes %+v, not the return", b.Last)
			}
		})
	}
}
