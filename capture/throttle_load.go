package capture

import (
	"slices"
	"time"
)

const (
	// busyTarget is for which part of its time the reader of an adaptive session may be at work.
	// The rest is for moments at which more packets come, or the machine has other work.
	busyTarget = 0.75
	// averageTime is over what time the bytes that an output writes are averaged: a stall of a
	// second takes a third of them away.
	averageTime = 3 * time.Second
	// A queue is to have room for what comes within this time, even if nothing is written.
	fullTime = time.Second
	// A queue that fills up is that of an output which stalls, or of one which is too slow. Only
	// when as much has waited for this time, it is the latter.
	stallTime = 3 * time.Second / 2
	// An output or a reader that has done nothing for this time stalls, and what it did before does
	// not tell how fast it is.
	silentTime = time.Second
	// trendTime is over what time a queue grows or shrinks.
	trendTime = time.Second / 2
)

// A workload is what a session has done until some time or, as a difference, between two.
type workload struct {
	at      time.Time
	elapsed time.Duration // of a difference

	pool   uint64 // packets that came to be sampled, unless SampleFlows or First have chosen some
	kept   uint64 // packets that were drawn
	lost   uint64 // those of them that found no room in a ring
	taken  uint64 // packets that the reader has handed over
	rested time.Duration
	queues []queueWork
}

// queueWork is what went through the queue of an output, in bytes.
type queueWork struct{ added, written, waiting, limit int64 }

// autoQueue is how many bytes may wait in a queue at most where the rate follows it. A queue may
// take more than that in a stall. But what waits is written before the session has ended, and so
// much alone takes a slow disk a minute or two.
const autoQueue = 256 << 20

func newQueueWork(added, written, limit int64) queueWork {
	return queueWork{added, written, added - written, min(limit, autoQueue)}
}

// since returns what was done after another time.
func (w *workload) since(before *workload) *workload {
	d := *w
	d.elapsed = w.at.Sub(before.at)
	d.pool -= min(d.pool, before.pool)
	d.kept -= min(d.kept, before.kept)
	d.lost -= min(d.lost, before.lost)
	d.taken -= min(d.taken, before.taken)
	d.rested -= before.rested
	d.queues = slices.Clone(w.queues)
	for i := range d.queues {
		d.queues[i].added -= before.queue(i).added
		d.queues[i].written -= before.queue(i).written
	}
	return &d
}

// queue is what went through a queue, which may not have been there yet.
func (w *workload) queue(i int) queueWork {
	if i >= len(w.queues) {
		return queueWork{}
	}
	return w.queues[i]
}

// busy is how long the reader was not asleep.
func (w *workload) busy() time.Duration { return max(w.elapsed-w.rested, 0) }

// speed is how many packets the reader took in a second in which it was not asleep.
func (w *workload) speed() float64 {
	return float64(w.taken) / max(w.busy(), time.Microsecond).Seconds()
}

// A history is what a session had done at its last looks, the oldest first: at most those of
// averageTime.
type history []workload

// add adds a look, and forgets those that are not needed any more.
func (h *history) add(now workload) {
	all := append(*h, now)
	for len(all) > 2 && now.at.Sub(all[1].at) >= averageTime {
		all = all[1:]
	}
	*h = all
}

// ago is the last look that was so long before the latest one, and whether there is one.
func (h history) ago(d time.Duration) (*workload, bool) {
	now := &h[len(h)-1]
	for i := len(h) - 2; i >= 0; i-- {
		if now.at.Sub(h[i].at) >= d {
			return &h[i], true
		}
	}
	return &h[0], false
}

// strain is how much is asked of the session, which keeps one packet of oneIn since the look before
// the latest one. There are at least two looks.
func (h history) strain(o *Options, oneIn uint32) (s strain) {
	now := &h[len(h)-1]
	tick := now.since(&h[len(h)-2])
	rate := float64(tick.kept)
	if o.SampleFlows <= 1 && o.First == 0 { // then this is exact
		rate = float64(tick.pool) / float64(oneIn)
	}
	rate /= tick.elapsed.Seconds()
	s.raise(h.ofReader(tick, rate))
	if o.MaxRate > 0 {
		load := rate / (0.95 * float64(o.MaxRate))
		s.raise(strain{lasting: load, calm: load})
	}
	sizes := now.since(&h[0])
	if sizes.taken < 100 { // then all packets so far tell more
		sizes = now
	}
	for i := range now.queues {
		s.raise(h.ofQueue(i, rate*float64(sizes.queues[i].added)/float64(max(sizes.taken, 1))))
	}
	return s
}

// ofReader is the strain on the reader and the rings, by a tick in which so many packets per second
// were kept. Where the reader does not get round to sleeping, as also where it waits for an output
// without a queue, what it has taken in the time for which it was awake tells how fast it can be.
func (h history) ofReader(tick *workload, rate float64) strain {
	load := tick.busy().Seconds() / tick.elapsed.Seconds() / busyTarget
	isBusy := load > 1
	if tick.lost > 0 {
		load = max(load, float64(tick.kept)/float64(max(tick.kept-min(tick.lost, tick.kept), tick.kept/16+1))/busyTarget)
	}
	if isBusy {
		now := &h[len(h)-1]
		average := now.since(&h[0])
		if before, ok := h.ago(silentTime); average.taken == 0 || ok && now.taken == before.taken {
			return strain{calm: 1}
		}
		able := max(average.speed(), tick.speed()) // the average may have a stall in it
		load = max(min(load, rate/able/busyTarget), 0.9)
	}
	return strain{lasting: load, calm: load}
}

// ofQueue is the strain on the queue of an output, into which so many bytes per second are put.
// There is room for more while less than a sixteenth of it waits, and that does not grow.
func (h history) ofQueue(i int, in float64) (s strain) {
	average := h[len(h)-1].since(&h[0])
	q := average.queues[i]
	before, _ := h.ago(trendTime)
	grown := q.waiting - before.queue(i).waiting
	written := float64(q.written) / average.elapsed.Seconds()
	if h.hasWaited(i, 2, 2*throttleInterval) {
		// A chunk is always room, so that a stall which lasts does not raise the rate without end.
		room := float64(max(q.limit-q.waiting, chunkSize))
		s.passing = in / (written + room/fullTime.Seconds())
	}
	if q.waiting >= q.limit/16 || grown > q.limit/256+2*chunkSize {
		s.calm = 1
	}
	if h.hasWaited(i, 8, stallTime) && !h.isSilent(i) {
		s.calm = in / max(0.9*written, 1)
		if grown > 0 {
			s.lasting = s.calm
		}
	}
	if q.waiting < q.limit/2 {
		s.lasting = min(s.lasting, 2)
	}
	return s
}

// hasWaited tells whether at least one part of so many of a queue was in use at all looks of some
// time.
func (h history) hasWaited(i int, parts int64, d time.Duration) bool {
	now := &h[len(h)-1]
	for k := len(h) - 1; k >= 0; k-- {
		if q := h[k].queue(i); q.limit == 0 || q.waiting < q.limit/parts {
			return false
		}
		if now.at.Sub(h[k].at) >= d {
			return true
		}
	}
	return false
}

// isSilent tells whether an output has written nothing for silentTime.
func (h history) isSilent(i int) bool {
	before, ok := h.ago(silentTime)
	return ok && h[len(h)-1].queue(i).written == before.queue(i).written
}
