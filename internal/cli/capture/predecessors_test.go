package capture

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// An account of an index is divided between its present source and those that had it before. Both
// parts together are the whole, also where the accounts were read before the present source came.
func TestPredecessors(t *testing.T) {
	t.Parallel()
	seen := func(n uint64) capture.Account { return capture.Account{Seen: n, Captured: n} }
	past := func(n uint64) forms { return forms{now: seen(n), end: seen(n + 1)} }
	p := predecessors{all: []predecessor{
		{},
		{arrival: 5, sources: 1, after: past(10)},
		{arrival: 8, sources: 3, before: past(20), after: past(30)},
	}}
	for _, test := range []struct {
		name     string
		accounts capture.Accounts
		arrivals []uint32
		atEnd    bool
		want     []uint64 // seen of each source
		earlier  uint64
		sources  int
	}{
		{"no predecessor", capture.Accounts{seen(7)}, []uint32{1}, false, []uint64{7}, 0, 0},
		{"gone, without a successor", capture.Accounts{seen(7), seen(10)}, []uint32{1, 5}, false, []uint64{7, 10}, 0, 0},
		{"successors", capture.Accounts{seen(7), seen(12), seen(33)}, []uint32{1, 9, 10}, false, []uint64{7, 2, 3}, 40, 4},
		{"the last one that went", capture.Accounts{seen(7), seen(12), seen(30)}, []uint32{1, 9, 8}, false, []uint64{7, 2, 10}, 30, 3},
		{"at the end", capture.Accounts{seen(7), seen(12), seen(33)}, []uint32{1, 9, 10}, true, []uint64{7, 1, 2}, 42, 4},
		{"accounts from before it came", capture.Accounts{seen(7), seen(9)}, []uint32{1, 9}, false, []uint64{7, 0}, 9, 1},
		{"no account yet", capture.Accounts{seen(7)}, []uint32{1, 5, 11}, false, []uint64{7, 0, 0}, 0, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sources []capture.Source
			for _, arrival := range test.arrivals {
				sources = append(sources, capture.Source{Arrival: arrival})
			}
			own, earlier := p.divide(test.accounts, sources, test.atEnd)
			var got []uint64
			for _, a := range own {
				got = append(got, a.Seen)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || earlier.Seen != test.earlier || earlier.Sources != test.sources {
				t.Errorf("earlier %+v, (-want +got):\n%s", earlier, diff)
			}
			if whole := own.Total().Seen + earlier.Seen; whole != test.accounts.Total().Seen {
				t.Errorf("together %d, want %d", whole, test.accounts.Total().Seen)
			}
		})
	}
}
