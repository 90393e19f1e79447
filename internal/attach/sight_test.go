package attach_test

import (
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A second is what a Sight reads after a second: what has come, and what the program has seen.
type second struct{ came, saw uint64 }

// times repeats seconds.
func times(n int, seconds ...second) []second { return slices.Repeat(seconds, n) }

// A program is lost after five seconds with packets of which it has seen none, if it has seen most
// before. Without an event at the card, each time doubles how long that takes.
func TestSight(t *testing.T) {
	t.Parallel()
	sees, blind, idle := second{100, 100}, second{100, 0}, second{}
	for _, test := range []struct {
		name    string
		seconds []second
		event   func(at int, card *xdp.Counts) // nil = none
		want    []int                          // after how many seconds the program is lost
	}{
		{"it sees all", times(1000, sees), nil, nil},
		{"it is lost", slices.Concat(times(3, sees), times(50, blind)), nil, []int{8}},
		{"few packets come", slices.Concat(times(3, second{1, 1}), times(50, second{1, 0}, idle)), nil, []int{12}},
		{"rare packets are not for it", slices.Concat(times(3, sees), times(50, second{1, 0}, idle, idle, idle, idle)), nil, nil},
		{"it has never seen one", times(1000, blind), nil, nil},
		{"it sees some of them", slices.Concat(times(3, sees), times(300, blind, blind, blind, blind, second{100, 1})), nil, nil},
		{"most have always passed by", times(200, slices.Concat(times(1, second{100, 20}), times(20, blind))...), nil, nil},
		{"the driver counts late", slices.Concat(times(3, second{0, 100}), times(3, blind), times(20, idle)), nil, nil},
		{"the driver counts every other second", times(100, second{0, 100}, second{200, 100}), nil, nil},
		{"it is lost, and the driver counts every other second",
			slices.Concat(times(1, second{0, 100}, second{200, 100}), times(20, idle, second{200, 0})), nil, []int{12}},
		{"offloads come and go", times(10, slices.Concat(times(10, sees), times(20, blind))...), nil, []int{15, 50, 90}},
		{"the MTU changes each time", times(3, slices.Concat(times(10, sees), times(20, blind))...),
			func(at int, card *xdp.Counts) { card.MTU = 1400 + at/30 }, []int{15, 45, 75}},
		{"it is down each time", times(3, slices.Concat(times(10, sees), times(20, blind))...),
			func(at int, card *xdp.Counts) { card.Up = at%30 != 9 }, []int{15, 45, 75}},
		{"the counters begin anew each time", times(3, slices.Concat(times(10, sees), times(20, blind))...),
			func(at int, card *xdp.Counts) {
				if at%30 == 10 {
					card.Received = 100
				}
			}, []int{16, 46, 76}},
		{"attaching makes them begin anew", times(10, slices.Concat(times(10, sees), times(20, blind))...),
			func(at int, card *xdp.Counts) {
				if slices.Contains([]int{15, 50, 90}, at) {
					card.Received = 100
				}
			}, []int{15, 50, 90}},
	} {
		var s attach.Sight
		card, seen := xdp.Counts{Received: 1000, MTU: 1500, Up: true}, uint64(7)
		s.Note(card, seen)
		var got []int
		for i, now := range test.seconds {
			card.Received, seen = card.Received+now.came, seen+now.saw
			if test.event != nil {
				test.event(i, &card)
			}
			if s.Note(card, seen) {
				got = append(got, i+1)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: it is lost after %v seconds, want %v", test.name, got, test.want)
		}
	}
}
