// Package follow joins the records of one packet at several places of a host, such as the entry and
// the exit of an XDP program, and the interface that sends the packet.
//
// Records are joined by the packet id if the hook gives one, and otherwise by the parts of the
// packet that do not change on the way: addresses and ports, IPv4's id, TCP's sequence numbers, and
// the rest of the bytes after IP's headers. A record that fits several packets is joined to none of
// them.
//
// The package also finds the difference of two captures' clocks, by their common packets.
package follow

import (
	"time"

	"github.com/xdpcap/xdpcap/capture/packet"
)

const (
	// Window is the time after a packet's first record in which further ones are joined to it.
	Window = time.Second

	// MaxRecords is the maximum number of records in a Table, and MaxText the maximum number of
	// bytes of their texts, without that of the last record. Beyond that, the oldest packets are
	// evicted before their Window has passed.
	MaxRecords = 1 << 17
	MaxText    = 128 << 20
)

// A Table has the packets to which records may still be joined. Its memory does not depend on the
// number of records that are added. It belongs to one goroutine.
type Table struct {
	done   func(*Way)
	keys   keyMaker
	places places
	index  index

	oldest, newest *Way    // the ends of a list of ways, in the order of their first records
	records, text  int     // in all ways: number of records, and bytes of their texts
	last           *Record // the last added one, whose text is not in `text` yet
	now            int64   // the latest time of a record
	early          uint64  // see Early
}

// New returns an empty table. It calls done with each way to which no more records can be joined,
// in the order of their first records. The table does not use the way after that.
func New(done func(*Way)) *Table {
	return &Table{done: done, index: newIndex(), places: newPlaces()}
}

// Early returns the number of packets that were evicted before their Window had passed. Later
// records of these packets were not joined to them.
func (t *Table) Early() uint64 { return t.early }

// Add adds the record of a packet from a source, and returns it. The caller sets the texts of the
// record before the next call. p is not kept.
func (t *Table) Add(s *packet.Source, p *packet.Packet) *Record {
	r := &Record{Time: p.Stamp(), WireLen: p.WireLen}
	if !p.HasTime() {
		r.Time = t.now
	}
	t.addText()
	if r.Time < t.now-int64(Window) { // the clock was set back
		t.Close()
		t.now = r.Time
	}
	t.now = max(t.now, r.Time)
	for t.oldest != nil && (t.isExpired(t.oldest) || t.isFull()) {
		t.evict()
	}
	t.last = r
	r.id, r.content = t.keys.id(s, p), t.keys.content(s, p)
	r.at, r.program = t.places.of(s, p, r.id.kind == byID)
	t.join(r)
	return r
}

// addText adds the size of the last record's text, which the caller has set meanwhile.
func (t *Table) addText() {
	if t.last != nil {
		t.text += t.last.ways * len(t.last.Text)
		t.last = nil
	}
}

// isFull reports whether there is no room for another record.
func (t *Table) isFull() bool { return t.records >= MaxRecords || t.text > MaxText }

// Close evicts all packets.
func (t *Table) Close() {
	t.addText()
	for t.oldest != nil {
		t.evict()
	}
}

// isExpired reports whether a way's window has passed.
func (t *Table) isExpired(w *Way) bool { return t.now-w.Records[0].Time > int64(Window) }

// evict removes the oldest way, and calls done with it.
func (t *Table) evict() {
	w := t.oldest
	if t.oldest = w.next; t.oldest == nil {
		t.newest = nil
	}
	if t.isFull() && !t.isExpired(w) {
		t.early++
	}
	t.records -= len(w.Records)
	for _, r := range w.Records {
		t.text -= len(r.Text)
	}
	w.Unclear = t.index.unclear(w)
	t.index.remove(w)
	t.done(w)
}

// join adds a record to the way or ways that it fits. It begins a new way if there is no such way,
// or if there are several and it is unclear which.
func (t *Table) join(r *Record) {
	found := t.index.find(&r.id, r)
	if len(found) == 0 {
		found = t.index.find(&r.content, r)
	}
	fits := 0 // the number of ways, if it is unclear to which of them the record belongs
	if !areParts(found) {
		for _, f := range found {
			fits += f.ways
			f.bucket.addUnclear(r)
		}
	}
	if len(found) == 0 || fits > 0 {
		t.begin(r, fits)
		return
	}
	for _, f := range found {
		w := t.index.way(f.bucket, r)
		if w == nil { // the record has just joined the only way of this bucket, by another key
			continue
		}
		t.records++
		r.ways++
		t.index.extend(w, r)
		if r.id.kind == byID {
			t.index.add(w, &r.id)
		}
		if f.bucket.key.kind == byID {
			t.index.add(w, &r.content) // the program may have changed the packet
		}
		if len(w.Records) >= maxRecords {
			t.index.remove(w)
		}
	}
}

// begin begins a way with a record that fits no way, or for which it is unclear which way it fits.
func (t *Table) begin(r *Record, fits int) {
	r.First, r.ways = true, 1
	w := &Way{Records: []*Record{r}, Fits: fits}
	if t.newest == nil {
		t.oldest = w
	} else {
		t.newest.next = w
	}
	t.newest = w
	t.records++
	t.index.add(w, &r.id)
	if fits == 0 { // otherwise its packet would have two ways, and later records would fit both
		t.index.add(w, &r.content)
	}
}
