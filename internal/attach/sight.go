package attach

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Sight finds out that a driver has lost a program which the kernel still shows as attached in
// native mode: the card goes on receiving packets, but they do not reach the program. vmxnet3 loses
// it when it sets up its queues again: after it was down, with another MTU, or by `ethtool -G`. To
// attach the program again helps.
//
// Packets may pass by a program for other reasons, such as offloads, and attaching may reset a
// card. So a program is lost only if it has seen most packets of a second before, and once until
// it does so again. Each time doubles how long it must have been blind for the next time, until
// something happens to the card by which the driver may lose it.
type Sight struct {
	Missed uint64 // at least so many packets have come since the program has seen the last one

	last     xdp.Counts // the previous reading
	seen     uint64     // by then
	sees     bool       // it has seen most packets of a second since it was lost
	blind    int        // readings in a row with packets, of which the program has not seen any
	idle     int        // readings without packets since then
	patience int        // of how many blind readings it is lost; 0 = there was no reading
	since    int        // readings since it was lost
}

// Numbers of readings. A driver may count a packet up to 3 s after the program has seen it, and
// less often than once in a second. Attaching changes the card for a moment.
const (
	firstPatience = 5
	longestIdle   = 3
	settled       = 5
)

// Note takes a reading of the card and of how many packets the program has seen, both cumulative,
// once a second. It reports whether the driver has lost the program, which is then attached again.
func (s *Sight) Note(card xdp.Counts, seen uint64) (lost bool) {
	came, saw := card.Received-s.last.Received, seen-s.seen
	isFirst, isAnew := s.patience == 0, card.Received < s.last.Received
	if s.since++; isFirst || s.since > settled && (isAnew || card.MTU != s.last.MTU || !card.Up) {
		s.patience = firstPatience
	}
	s.last, s.seen = card, seen
	switch {
	case isFirst || isAnew:
		s.clear()
	case saw > 0:
		s.clear()
		s.sees = s.sees || saw >= came/2
	case came == 0:
		if s.idle++; s.idle > longestIdle {
			s.clear()
		}
	default:
		s.blind, s.idle, s.Missed = s.blind+1, 0, s.Missed+came
	}
	if !s.sees || s.blind < s.patience {
		return false
	}
	s.sees, s.blind, s.since, s.patience = false, 0, 0, 2*s.patience
	return true
}

// clear begins to count blind readings anew.
func (s *Sight) clear() { s.blind, s.idle, s.Missed = 0, 0, 0 }

// IsDoubtful reports whether the program may soon be lost.
func (s *Sight) IsDoubtful() bool { return s.sees && s.blind > 0 && s.blind < firstPatience }

// Lost describes the interface of a program that is lost.
func Lost(name string, missed uint64) string {
	return fmt.Sprintf("of the last %d packets that %s has received, its XDP hook has seen none, as if the driver had lost the program", missed, name)
}
