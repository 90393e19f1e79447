package watch

import (
	"fmt"
	"time"
)

// settleTime is the longest time between an interface's count of a packet and a program's: a veth
// counts at the end of a NAPI poll.
const settleTime = 2 * time.Millisecond

// A gap is the time between the detaching of an interface's hook and the attaching of its next one.
// Counts are cumulative.
type gap struct {
	since    time.Time
	source   int    // the index of the source that was detached
	seen     uint64 // packets that its program had seen, read at least settleTime before received
	received uint64 // packets that the interface had received, read before the program was detached
	counted  bool   // both could be read, and the interface counts without delay
}

// waitForCounts reads how many packets of each source the programs have seen, and then waits until
// the interfaces have counted these packets, too. It returns what it has read; nil if the counters
// cannot be read.
func (w *Witness) waitForCounts() map[int]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, seen := w.readSeen()
	time.Sleep(settleTime)
	return seen
}

// beginGap returns the gap of a source that is about to be detached from the interface with this
// index. seen is from waitForCounts.
func (w *Witness) beginGap(index, source int, seen map[int]uint64) gap {
	g := gap{since: time.Now(), source: source}
	var known bool
	if g.seen, known = seen[source]; known {
		c, err := w.read(index)
		g.received, g.counted = c.Received, err == nil && !c.IsHardware // a card's driver may count late
	}
	return g
}

// endGap adds the packets of a gap to those that passed by before the source `next` came. The
// packets of a gap are those that the interface has received and neither source has seen, a lower
// bound. It returns the end of a notice, with their number; "" = it is not known.
func (w *Witness) endGap(g gap, index, next int) string {
	if !g.counted {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.read(index)
	accounts, failed := w.counted() // read after the interface's count, so that the difference is a lower bound
	if err != nil || failed != nil {
		return ""
	}
	var seen uint64
	for i, src := range w.listed() {
		if i == g.source || i == next {
			seen += mostJoined(&src)*accounts[i].Seen + accounts[i].Joined
		}
	}
	received := now.Received - g.received
	packets := received - min(received, seen-g.seen)
	if w.sources[next] == nil {
		w.sources[next] = &passing{came: neverRead}
	}
	w.sources[next].passedBefore += packets
	return fmt.Sprintf(" in which it received at least %d packets", packets)
}
