package watch

import (
	"fmt"
	"time"
)

// settleTime is the maximum time until an interface has counted a packet that a program has seen: a
// veth counts at the end of a NAPI poll.
const settleTime = 2 * time.Millisecond

// A gap is a time in which an interface is captured at no hook, because one was detached and the
// next is not attached yet. Counts are cumulative.
type gap struct {
	since    time.Time
	source   int    // the source that was detached
	seen     uint64 // packets that its program had seen, at least settleTime before received was read
	received uint64 // packets that the interface had received before the program was detached
	counted  bool   // whether both could be read
}

// seenSettled returns the number of packets that the programs have seen of each source, once the
// interfaces have counted them, too. It returns nil if that cannot be read.
func (w *Witness) seenSettled() map[int]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, seen := w.seen()
	time.Sleep(settleTime)
	return seen
}

// begin returns the gap of a source that is about to be detached. seen is from seenSettled.
func (w *Witness) begin(index, source int, seen map[int]uint64) gap {
	g := gap{since: time.Now(), source: source}
	var known bool
	if g.seen, known = seen[source]; known {
		c, err := w.read(index)
		g.received, g.counted = c.Received, err == nil && !c.IsHardware // a card's driver may count late
	}
	return g
}

// end adds the packets of a gap to the packets that passed by before the next source came: those
// that the interface has received and that neither source has seen, a lower bound. It returns the
// end of a notice with their number, or "" if it is not known.
func (w *Witness) end(g gap, index, next int) string {
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
		w.sources[next] = &passing{came: -1}
	}
	w.sources[next].before += packets
	return fmt.Sprintf(" in which it received at least %d packets", packets)
}
