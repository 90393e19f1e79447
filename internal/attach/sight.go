package attach

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Sight detects that a driver has lost a program which the kernel still lists as attached in
// native mode: the card receives packets, but the program gets none. vmxnet3 loses its program when
// it sets up its queues again: after it was down, with another MTU, or by `ethtool -G`. The remedy
// is to attach the program again.
//
// A program may also miss packets for other reasons, such as offloads, and attaching may reset a
// card. So a program counts as lost only after a second in which it got most packets, and once for
// each such second. Each loss doubles the number of blind readings for the next one, until a change
// of the card that may be a cause: it was down, or has another MTU or new counters.
type Sight struct {
	Missed uint64 // a lower bound of the packets since the last one that the program got

	last     xdp.Counts // the previous reading
	lastSeen uint64     // the program's packets at the previous reading
	sees     bool       // it got most packets of a second since it was lost
	blind    int        // consecutive readings with packets of which the program got none
	idle     int        // readings without packets since the last blind one
	patience int        // the number of blind readings after which it is lost; 0 = no reading yet
	since    int        // readings since it was lost
}

// Numbers of readings, one per second.
const (
	firstPatience = 5 // a driver may count a packet up to 3 s after the program got it
	longestIdle   = 3 // a driver may count less often than once per second
	settled       = 5 // after attaching, which changes the card for a moment
)

// Note takes a reading of the card's counters and of the number of packets that the program got,
// both cumulative, once per second. It reports whether the driver has lost the program. Then the
// caller attaches it again.
func (s *Sight) Note(card xdp.Counts, seen uint64) (lost bool) {
	came, saw := card.Received-s.last.Received, seen-s.lastSeen
	isFirst, isAnew := s.patience == 0, card.Received < s.last.Received
	if s.since++; isFirst || s.since > settled && (isAnew || card.MTU != s.last.MTU || !card.Up) {
		s.patience = firstPatience
	}
	s.last, s.lastSeen = card, seen
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

// clear starts the count of blind readings again.
func (s *Sight) clear() { s.blind, s.idle, s.Missed = 0, 0, 0 }

// IsDoubtful reports whether the program may soon be lost.
func (s *Sight) IsDoubtful() bool { return s.sees && s.blind > 0 && s.blind < firstPatience }

// Lost returns the notice about a lost program at an interface.
func Lost(name string, missed uint64) string {
	return fmt.Sprintf("of the last %d packets that %s has received, its XDP hook has seen none, as if the driver had lost the program", missed, name)
}
