package sflow

import "time"

// A datagram collects samples.
type datagram struct {
	bytes   []byte
	samples uint32
	begun   time.Time
	marks   []mark
	held    []held // indexed by source
}

// A mark is the position of a sample whose rate or drops are written when the datagram is sent.
type mark struct {
	at, source int
	isDiscard  bool
	weight     uint32 // the packet's weight
}

// held counts a source's packets in a datagram.
type held struct {
	packets, bytes int
	samples        int // flow samples or, for a source without these, discarded packets
}

func newDatagram() *datagram {
	return &datagram{bytes: make([]byte, 0, maxDatagram), marks: make([]mark, 0, 16)}
}

// of returns the counts of a source in the datagram.
func (d *datagram) of(source int) *held {
	for len(d.held) <= source {
		d.held = append(d.held, held{})
	}
	return &d.held[source]
}

func (d *datagram) begin(h Header) {
	d.bytes = appendHeader(d.bytes[:0], &h)
	d.begun = time.Now()
}

// finish writes the final header. It has the same length as that of begin.
func (d *datagram) finish(h Header) { appendHeader(d.bytes[:0], &h) }

func (d *datagram) clear() {
	d.bytes, d.samples, d.marks = d.bytes[:0], 0, d.marks[:0]
	clear(d.held)
}

func (d *datagram) addFlow(source int, f Flow, weight uint32) {
	d.addMark(mark{at: len(d.bytes), source: source, weight: weight})
	d.bytes = appendFlow(d.bytes, &f)
}

func (d *datagram) addDiscard(source int, f Discard, weight uint32) {
	d.addMark(mark{at: len(d.bytes), source: source, isDiscard: true, weight: weight})
	d.bytes = appendDiscard(d.bytes, &f)
}

// addMark counts the sample at a mark.
func (d *datagram) addMark(m mark) {
	d.marks = append(d.marks, m)
	d.of(m.source).samples++
	d.samples++
}

func (d *datagram) addCounters(number uint32, c *InterfaceCounters) {
	d.bytes = appendCounters(d.bytes, number, c)
	d.samples++
}

// commonLength is the maximum number of datagrams in the line of flow samples and counters. Sent at
// once, at the end, they fit into a collector's receive buffer of Linux's default size.
const commonLength = 64

// A line is a queue of datagrams that wait to be sent, so that losses are spread over many samples.
// The last one is open.
type line struct {
	first, next int // positions in datagrams, which is a ring
	datagrams   []*datagram
}

func newLine(length int) *line {
	l := &line{datagrams: make([]*datagram, length)}
	for i := range l.datagrams {
		l.datagrams[i] = newDatagram()
	}
	return l
}

// open returns the last datagram.
func (l *line) open() *datagram { return l.datagrams[l.next%len(l.datagrams)] }

// oldest returns the first datagram, which may be the open one.
func (l *line) oldest() *datagram { return l.datagrams[l.first%len(l.datagrams)] }

func (l *line) isFull() bool { return l.next-l.first == len(l.datagrams)-1 }

// shut makes the next datagram the open one. There must be room for it.
func (l *line) shut() { l.next++ }

// remove removes the oldest datagram after it was sent.
func (l *line) remove() {
	l.oldest().clear()
	if l.first < l.next {
		l.first++
	}
}
