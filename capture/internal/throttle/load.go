package throttle

import (
	"slices"
	"time"
)

const (
	// busyTarget is the share of time in which the reader of an adaptive session may be busy. The
	// rest is a reserve for bursts and for other work of the machine.
	busyTarget = 0.75
	// averageTime is the time over which the bytes that an output writes are averaged. A stall, in
	// which the output writes nothing, lowers the average by a third if it lasts for a second.
	averageTime = 3 * time.Second
	// fullTime is the time for which a queue should have room if its output stalls.
	fullTime = time.Second
	// slowTime is how long bytes must have waited in a queue until its output may count as too
	// slow. A shorter wait may be due to a stall.
	slowTime = 3 * time.Second / 2
	// silentTime is the time without progress after which an output or a reader counts as silent:
	// its past work then does not show how fast it is.
	silentTime = time.Second
	// writeSize is about how many bytes an output writes at a time.
	writeSize = 256 << 10
	// trendTime is the time over which a queue's growth is measured.
	trendTime = time.Second / 2
	// queueLimit is how many bytes may wait in a queue before the rate falls. During a stall more
	// may wait. All waiting bytes are written before the session ends, and a slow disk needs a
	// minute or two for this many.
	queueLimit = 256 << 20
)

// A period has the increase of the counters of a session between two readings.
type period struct {
	Counters
	elapsed time.Duration
}

// between returns the period between two readings. At and the limits of the queues stay those of
// now. Pool may seem to fall, because its counters are copied while packets come: then it has no
// increase.
func between(before, now *Counters) *period {
	p := &period{*now, now.At.Sub(before.At)}
	p.Pool -= min(p.Pool, before.Pool)
	p.Kept -= min(p.Kept, before.Kept)
	p.Lost -= min(p.Lost, before.Lost)
	p.Taken -= min(p.Taken, before.Taken)
	p.Rested -= before.Rested
	p.Queues = slices.Clone(now.Queues)
	for i := range p.Queues {
		p.Queues[i].Added -= before.queue(i).Added
		p.Queues[i].Written -= before.queue(i).Written
	}
	return p
}

// queue returns a queue, or zero if it did not exist yet.
func (c *Counters) queue(i int) Queue {
	if i >= len(c.Queues) {
		return Queue{}
	}
	return c.Queues[i]
}

// waiting is how many bytes wait in a queue.
func (q Queue) waiting() int64 { return q.Added - q.Written }

// limit is how many bytes may wait in a queue before the rate falls.
func (q Queue) limit() int64 { return min(q.Limit, queueLimit) }

// busy returns how long the reader was awake.
func (p *period) busy() time.Duration { return max(p.elapsed-p.Rested, 0) }

// speed returns how many packets the reader read per second while it was awake.
func (p *period) speed() float64 {
	return float64(p.Taken) / max(p.busy(), time.Microsecond).Seconds()
}

// A history has the last readings, the oldest first. It covers averageTime, and up to one reading
// more.
type history []Counters

// add adds a reading, and drops old ones that are no longer needed.
func (h *history) add(now Counters) {
	all := append(*h, now)
	for len(all) > 2 && now.At.Sub(all[1].At) >= averageTime {
		all = all[1:]
	}
	*h = all
}

// now returns the latest reading.
func (h history) now() *Counters { return &h[len(h)-1] }

// all returns the period that the history covers.
func (h history) all() *period { return between(&h[0], h.now()) }

// ago returns the last reading at least this long before the latest one, and true; without such a
// reading, the oldest one and false.
func (h history) ago(d time.Duration) (*Counters, bool) {
	for i := len(h) - 2; i >= 0; i-- {
		if h.now().At.Sub(h[i].At) >= d {
			return &h[i], true
		}
	}
	return &h[0], false
}

// load returns the load of the session's bottleneck: above 1, the session must keep fewer packets;
// with calm below 0.8 it may keep more (pace.update). It has kept one packet of oneIn since the
// reading before the latest one. There must be at least two readings.
func (h history) load(o Options, oneIn uint32) (s strain) {
	now := h.now()
	latest := between(&h[len(h)-2], now)
	kept := float64(latest.Kept)
	if !o.Skips { // only the rate decides how many are kept, so that their mean number is known
		kept = float64(latest.Pool) / float64(oneIn)
	}
	rate := kept / latest.elapsed.Seconds() // packets per second
	s.raise(h.readerLoad(latest, rate))
	if o.MaxRate > 0 {
		load := rate / (0.95 * float64(o.MaxRate))
		s.raise(strain{lasting: load, calm: load})
	}
	sizes := &h.all().Counters
	if sizes.Taken < 100 { // too few packets for a mean size: use all packets so far
		sizes = now
	}
	for i := range now.Queues {
		s.raise(h.queueLoad(i, rate*float64(sizes.Queues[i].Added)/float64(max(sizes.Taken, 1))))
	}
	return s
}

// readerLoad returns the strain on the reader and the rings, from the latest period, in which this
// many packets per second were kept. For a reader that is busier than busyTarget, it uses the
// reader's speed while awake, because such a reader may also wait for an output without a queue.
func (h history) readerLoad(latest *period, rate float64) strain {
	load := latest.busy().Seconds() / latest.elapsed.Seconds() / busyTarget
	isBusy := load > 1
	if latest.Lost > 0 {
		// At least a sixteenth counts as read: a pace lowers the rate by no more at a time.
		read := max(latest.Kept-min(latest.Lost, latest.Kept), latest.Kept/16+1)
		load = max(load, float64(latest.Kept)/float64(read)/busyTarget)
	}
	if isBusy {
		average := h.all()
		before, ok := h.ago(silentTime)
		isSilent := average.Taken == 0 || ok && h.now().Taken == before.Taken
		if isSilent {
			return strain{calm: 1} // the rate stays
		}
		speed := max(average.speed(), latest.speed())     // a stall may lower the average
		load = max(min(load, rate/speed/busyTarget), 0.9) // not so low that more packets are kept
	}
	return strain{lasting: load, calm: load}
}

// queueLoad returns the strain on an output's queue, to which `in` bytes per second are added. The
// rate may rise while the queue is less than a sixteenth full and does not grow.
func (h history) queueLoad(i int, in float64) (s strain) {
	q, average := h.now().queue(i), h.all()
	waiting, limit := q.waiting(), q.limit()
	before, _ := h.ago(trendTime)
	grown := waiting - before.queue(i).waiting()
	written := float64(average.Queues[i].Written) / average.elapsed.Seconds()
	if h.hasWaited(i, 2, 2*Interval) {
		// At least one chunk counts as room, so that a long stall does not raise oneIn without end.
		room := float64(max(limit-waiting, writeSize))
		s.passing = in / (written + room/fullTime.Seconds())
	}
	if waiting >= limit/16 || grown > limit/256+2*writeSize {
		s.calm = 1 // the rate does not rise, unless the output's speed is known below
	}
	if h.hasWaited(i, 8, slowTime) && !h.isSilent(i) {
		s.calm = in / max(0.9*written, 1)
		if grown > 0 {
			s.lasting = s.calm
		}
	}
	if waiting < limit/2 { // there is room to lower the rate step by step
		s.lasting = min(s.lasting, 2)
	}
	return s
}

// hasWaited reports whether at least 1/parts of a queue was in use at all readings of the last d. A
// queue that did not exist yet has the limit 0.
func (h history) hasWaited(i int, parts int64, d time.Duration) bool {
	for k := len(h) - 1; k >= 0; k-- {
		if q := h[k].queue(i); q.limit() == 0 || q.waiting() < q.limit()/parts {
			return false
		}
		if h.now().At.Sub(h[k].At) >= d {
			return true
		}
	}
	return false
}

// isSilent reports whether an output has written no bytes for silentTime.
func (h history) isSilent(i int) bool {
	before, ok := h.ago(silentTime)
	return ok && h.now().queue(i).Written == before.queue(i).Written
}
