package meter

import (
	"fmt"
	"maps"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Case is an event with its details; each has its own counter. Details that an event does not
// have are zero.
type Case struct {
	Event   Event
	Errno   unix.Errno   // RedirectErr, DevmapXmit and BulkTx; 0 = none
	Verdict xdp.Verdict  // Exception; xdp.UnknownVerdict stands for all unknown ones
	Memory  MemoryType   // MemConnect, MemDisconnect, MemReturnFailed
	MapID   uint32       // CPUMapEnqueue, CPUMapKthread; Redirect and RedirectErr through a map
	MapType ebpf.MapType // RedirectErr through a map
	ToCPU   int          // CPUMapEnqueue
	From    string       // the receiving interface; of BulkTx the sending, of MemConnect the connecting one
	Netns   uint32       // inode of From's network namespace; 0 without TracepointOptions.Netns
	To      string       // interface: DevmapXmit
	Message string       // AttachFailed: the kernel's message, cut after 103 bytes
}

// An EventCount counts the events of one Case, cumulative since Open. Its memory layout is that of
// struct count in bpf/tracepoints.c, so the map is read into it.
type EventCount struct {
	Events  uint64 `json:"count"`   // how often the tracepoint was hit; a bulk of packets is one event
	Packets uint64 `json:"packets"` // sent, queued, taken or redirected
	Drops   uint64 `json:"drops"`   // packets that were lost

	// Generic and Foreign are the Drops of an Exception in generic mode, which the kernel also
	// reports by skb:kfree_skb. Generic counts the drops of the interface's own program, and
	// Foreign those of packets that another interface's program has redirected to it.
	Generic uint64 `json:"-"`
	Foreign uint64 `json:"-"`

	// Sched counts the CPUMapKthread bulks before which the thread slept or let other threads run.
	// Passed, Dropped and Redirected count the verdicts of the program in the map's entry, if it
	// has one.
	Sched      uint64 `json:"sched,omitempty"`
	Passed     uint64 `json:"passed,omitempty"`
	Dropped    uint64 `json:"dropped,omitempty"`
	Redirected uint64 `json:"redirected,omitempty"`
}

// Add adds d to c.
func (c *EventCount) Add(d EventCount) {
	c.Events += d.Events
	c.Packets += d.Packets
	c.Drops += d.Drops
	c.Generic += d.Generic
	c.Foreign += d.Foreign
	c.Sched += d.Sched
	c.Passed += d.Passed
	c.Dropped += d.Dropped
	c.Redirected += d.Redirected
}

// SumEvents returns the sum over the CPUs.
func SumEvents(perCPU []EventCount) (sum EventCount) {
	for _, c := range perCPU {
		sum.Add(c)
	}
	return sum
}

// EventCounts is the result of Tracepoints.Read, cumulative since Open. The caller owns it.
type EventCounts struct {
	Cases  map[Case][]EventCount // by the CPU that hit the tracepoint, for all possible CPUs
	Missed uint64                // events that found the table of cases full

	// Former has the sums over the CPUs of evicted cases, whose events Cases no longer has: when
	// there are many cases, those without an event for a minute are evicted. Former cases have Gone
	// in place of interfaces, and no id of a map, so that there are few.
	Former map[Case]EventCount

	Lost uint64 // records that Next never returns, because the ring was full
}

// Forgotten returns the events of former cases.
func (c *EventCounts) Forgotten() (events uint64) {
	for _, n := range c.Former {
		events += n.Events
	}
	return events
}

// Read reads all counters.
func (t *Tracepoints) Read() (EventCounts, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := EventCounts{Cases: make(map[Case][]EventCount), Former: maps.Clone(t.former)}
	var key tracepointsKey
	var slots []EventCount
	all := t.coll.Maps[tracepointsMapCounts].Iterate()
	for all.Next(&key, &slots) {
		c.add(caseOf(&key), slots)
	}
	var message [len(tracepointsRecord{}.Message)]int8
	failed := t.coll.Maps[tracepointsMapMessages].Iterate()
	for failed.Next(&message, &slots) {
		c.add(Case{Event: AttachFailed, Message: Text(message[:])}, slots)
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

// keptCases is how many cases are kept however quiet they are. The table has room for four times as
// many, for the cases of the last minute.
const keptCases = 1024

// evictQuiet evicts cases from the table, and adds their counts to former cases. They may name
// interfaces of containers that are long gone, and each case is several time series for Prometheus.
func (t *Tracepoints) evictQuiet(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := EvictQuiet(&t.aging, now, t.coll.Maps[tracepointsMapCounts], ebpf.MustPossibleCPU(),
		func(_ tracepointsKey, slots []EventCount) (uint64, bool) { return SumEvents(slots).Events, true },
		func(key tracepointsKey, slots []EventCount) {
			c := caseOf(&key)
			c.MapID, c.Netns = 0, 0
			for _, name := range []*string{&c.From, &c.To} {
				if *name != "" {
					*name = Gone
				}
			}
			sum := SumEvents(slots)
			sum.Add(t.former[c])
			t.former[c] = sum
		})
	if err != nil {
		return fmt.Errorf("make room for counters of the xdp tracepoints: %w", err)
	}
	return nil
}

// add adds the counts of a case by CPU. Several keys of the map can be one case.
func (c *EventCounts) add(k Case, slots []EventCount) {
	if c.Cases[k] == nil {
		c.Cases[k] = make([]EventCount, len(slots))
	}
	for cpu, n := range slots {
		c.Cases[k][cpu].Add(n)
	}
}

func countOf(c *tracepointsCount) EventCount {
	return EventCount{c.Events, c.Packets, c.Drops, c.Generic, c.Foreign, c.Sched, c.Passed, c.Dropped, c.Redirected}
}

func caseOf(k *tracepointsKey) Case {
	c := Case{
		Event:   Event(k.Event),
		MapID:   k.MapId,
		MapType: ebpf.MapType(k.MapType),
		ToCPU:   int(k.ToCpu),
		From:    Text(k.From[:]),
		Netns:   k.Netns,
		To:      Text(k.To[:]),
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

// Text converts a string of C, up to the first zero.
func Text(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// A MemoryType is the origin of the pages for a receive queue's packets: enum xdp_mem_type of
// include/net/xdp.h.
type MemoryType uint32

var memoryTypes = [...]string{"page_shared", "page_order0", "page_pool", "xsk_buff_pool"}

// String returns the kernel's name in lower case, or the number of a type that is newer than these.
func (m MemoryType) String() string {
	if int(m) < len(memoryTypes) {
		return memoryTypes[m]
	}
	return fmt.Sprintf("type %d", uint32(m))
}
