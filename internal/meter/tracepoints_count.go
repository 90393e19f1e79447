package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Case is an event and what tells its cases apart. What an event does not have is zero.
type Case struct {
	Event   Event
	Errno   unix.Errno  // RedirectErr, DevmapXmit and BulkTx; 0 = none
	Verdict xdp.Verdict // Exception; xdp.UnknownVerdict stands for all that do not exist
	Memory  MemoryType  // MemConnect, MemDisconnect, MemReturnFailed
	MapID   uint32      // CPUMapEnqueue, CPUMapKthread; Redirect and RedirectErr through a map
	ToCPU   int         // CPUMapEnqueue
	From    string      // interface: where the packet came from, or that sends (BulkTx) or connects (MemConnect)
	To      string      // interface: DevmapXmit
	Message string      // AttachFailed: the kernel's words, cut after 103 bytes
}

// An EventCount is cumulative since Open.
type EventCount struct {
	Events  uint64 // how often the tracepoint was passed; for bulks, their number
	Packets uint64 // sent, queued, taken or redirected
	Drops   uint64 // packets that were lost

	// Of CPUMapKthread: bulks before which the thread had slept or made way, and the verdicts of
	// the program that the map's entry has, if any.
	Sched, Passed, Dropped, Redirected uint64
}

// Add makes c the sum.
func (c *EventCount) Add(d EventCount) {
	c.Events += d.Events
	c.Packets += d.Packets
	c.Drops += d.Drops
	c.Sched += d.Sched
	c.Passed += d.Passed
	c.Dropped += d.Dropped
	c.Redirected += d.Redirected
}

// Sub is what was added to before until c.
func (c EventCount) Sub(before EventCount) EventCount {
	return EventCount{
		Events:     c.Events - before.Events,
		Packets:    c.Packets - before.Packets,
		Drops:      c.Drops - before.Drops,
		Sched:      c.Sched - before.Sched,
		Passed:     c.Passed - before.Passed,
		Dropped:    c.Dropped - before.Dropped,
		Redirected: c.Redirected - before.Redirected,
	}
}

// EventCounts is what Tracepoints.Read returns, cumulative since Open. It is the caller's.
type EventCounts struct {
	Cases  map[Case][]EventCount // by possible CPU: the one that the tracepoint was passed on
	Missed uint64                // events in none of the cases: there were too many different ones
	Lost   uint64                // records that found the ring full, and are not in Next
}

// Read reads all counters.
func (t *Tracepoints) Read() (EventCounts, error) {
	c := EventCounts{Cases: make(map[Case][]EventCount)}
	var key tracepointsKey
	var slots []tracepointsCount
	all := t.coll.Maps[tracepointsMapCounts].Iterate()
	for all.Next(&key, &slots) {
		c.add(caseOf(&key), slots)
	}
	var message [len(tracepointsRecord{}.Message)]int8
	failed := t.coll.Maps[tracepointsMapMessages].Iterate()
	for failed.Next(&message, &slots) {
		c.add(Case{Event: AttachFailed, Message: text(message[:])}, slots)
	}
	for _, iterator := range []*ebpf.MapIterator{all, failed} {
		if err := iterator.Err(); err != nil {
			return EventCounts{}, fmt.Errorf("read the counters of the xdp tracepoints: %w", err)
		}
	}
	var losses []tracepointsLoss
	if err := t.coll.Maps[tracepointsMapLosses].Lookup(uint32(0), &losses); err != nil {
		return EventCounts{}, fmt.Errorf("read the losses of the xdp tracepoints: %w", err)
	}
	for _, l := range losses {
		c.Missed += l.Counts
		c.Lost += l.Records
	}
	return c, nil
}

func (c *EventCounts) add(k Case, slots []tracepointsCount) {
	if c.Cases[k] == nil {
		c.Cases[k] = make([]EventCount, len(slots))
	}
	for cpu := range slots {
		c.Cases[k][cpu].Add(countOf(&slots[cpu]))
	}
}

func countOf(c *tracepointsCount) EventCount {
	return EventCount{c.Events, c.Packets, c.Drops, c.Sched, c.Passed, c.Dropped, c.Redirected}
}

func caseOf(k *tracepointsKey) Case {
	c := Case{
		Event: Event(k.Event),
		MapID: k.MapId,
		ToCPU: int(k.ToCpu),
		From:  text(k.From[:]),
		To:    text(k.To[:]),
	}
	switch c.Event {
	case Exception:
		c.Verdict = xdp.Verdict(k.Code)
	case MemConnect, MemDisconnect, MemReturnFailed:
		c.Memory = MemoryType(k.Code)
	default:
		c.Errno = unix.Errno(k.Code)
	}
	return c
}

// text is a string of C.
func text(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// A MemoryType is enum xdp_mem_type of include/net/xdp.h: where a receive queue's packets have
// their pages from.
type MemoryType uint32

var memoryTypes = [...]string{"page_shared", "page_order0", "page_pool", "xsk_buff_pool"}

// String is the kernel's name in lower case, or the number where this is a newer type.
func (m MemoryType) String() string {
	if int(m) < len(memoryTypes) {
		return memoryTypes[m]
	}
	return fmt.Sprintf("type %d", uint32(m))
}
