// Package follow joins the records of one packet: as it was seen at several places of a host, such
// as the entry and the exit of an XDP program, and where another interface sends it.
//
// Records are joined by the packet id, where the hook gives one, and else by what the path does not
// change: addresses and ports, IPv4's id, TCP's sequence numbers, and what else follows IP's
// headers. A record that fits several packets is joined to none.
package follow

import (
	"time"

	"github.com/xdpcap/xdpcap/capture/packet"
)

const (
	// Window is the time in which the records of a packet are joined, from its first one on.
	Window = time.Second

	// MaxRecords is how many records a Table has at most, and MaxText how many bytes of text they
	// have, but for the last one. When more come within the Window, the oldest packets leave early.
	MaxRecords = 1 << 17
	MaxText    = 128 << 20
)

// A Table has the packets to which records may still be joined. Its memory does not depend on how
// many records it gets. It belongs to one goroutine.
type Table struct {
	leave  func(*Way)
	keys   keyMaker
	places places
	index  index

	oldest, newest *Way    // in the order of their first records
	records, text  int     // of all ways; text is in bytes
	last           *Record // whose text is not in there yet
	now            int64
	early          uint64
}

// New returns an empty table. It calls leave with each way to which no record can be joined any
// more, in the order of their first records. The table does not use the way after that.
func New(leave func(*Way)) *Table {
	return &Table{leave: leave, index: newIndex(), places: newPlaces()}
}

// Early is how many packets have left before their Window had passed, to make room. A record that
// came after that was not joined to them.
func (t *Table) Early() uint64 { return t.early }

// Add adds the record of a packet from a source, and returns it. The caller sets the texts of the
// record before the next call. p is not kept.
func (t *Table) Add(s *packet.Source, p *packet.Packet) *Record {
	r := &Record{Time: p.Stamp(), WireLen: p.WireLen}
	if !p.HasTime() {
		r.Time = t.now
	}
	t.weigh()
	if r.Time < t.now-int64(Window) { // the clock was set back
		t.Close()
		t.now = r.Time
	}
	t.now = max(t.now, r.Time)
	for t.oldest != nil && (t.over(t.oldest) || t.full()) {
		t.release()
	}
	t.last = r
	r.id, r.content = t.keys.id(s, p), t.keys.content(s, p)
	r.at, r.program = t.places.of(s, p, r.id.kind == byID)
	t.join(r)
	return r
}

// weigh adds the text that the caller has given to the last record.
func (t *Table) weigh() {
	if t.last != nil {
		t.text += t.last.ways * len(t.last.Text)
		t.last = nil
	}
}

// full tells whether there is no room for another record.
func (t *Table) full() bool { return t.records >= MaxRecords || t.text > MaxText }

// Close lets all packets leave.
func (t *Table) Close() {
	t.weigh()
	for t.oldest != nil {
		t.release()
	}
}

// over tells whether a way's window has passed.
func (t *Table) over(w *Way) bool { return t.now-w.Records[0].Time > int64(Window) }

// release lets the oldest way leave.
func (t *Table) release() {
	w := t.oldest
	if t.oldest = w.next; t.oldest == nil {
		t.newest = nil
	}
	if t.full() && !t.over(w) {
		t.early++
	}
	t.records -= len(w.Records)
	for _, r := range w.Records {
		t.text -= len(r.Text)
	}
	w.Unclear = t.index.unclear(w)
	t.index.remove(w)
	t.leave(w)
}

// join adds a record to the way or ways that it fits. It begins a new one if there is none, or if
// it may be a record of several.
func (t *Table) join(r *Record) {
	found := t.index.find(&r.id, r)
	if len(found) == 0 {
		found = t.index.find(&r.content, r)
	}
	fits := 0
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
		if w == nil {
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

// begin begins a way with a record that fits none, or that may be one of several.
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
	if fits == 0 { // else what fits this record would fit one packet more than there are
		t.index.add(w, &r.content)
	}
}
