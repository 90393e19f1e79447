package throttle

import (
	"slices"
	"time"
)

const (
	// busyTarget is the share of time in which the reader of an adaptive session may be busy. The
	// rest is a reserve for bursts and for other work of the machine.
	busyTarget = 0.75
	// averageTime is the time over which the bytes that an output writes are averaged. A stall of
	// one second lowers the average by a third.
	averageTime = 3 * time.Second
	// A queue should have room for the bytes that are added within this time, even if no bytes are
	// written.
	fullTime = time.Second
	// A queue fills up when its output stalls or is too slow. Only if the queue has stayed full for
	// this time is the output too slow.
	stallTime = 3 * time.Second / 2
	// An output or a reader without progress for this time stalls, and its past work does not show
	// how fast it is.
	silentTime = time.Second
	// writeSize is about how many bytes an output writes at a time.
	writeSize = 256 << 10
	// trendTime is the time over which a queue's growth is measured.
	trendTime = time.Second / 2
)

// A workload has the counters of a session at a time or, as a difference, between two times.
type workload struct {
	at      time.Time
	elapsed time.Duration // the time between the two; only in a difference

	pool, kept, lost, taken uint64 // as in Counters

	rested time.Duration
	queues []queueWork
}

func newWorkload(c *Counters) workload {
	w := workload{at: c.At, pool: c.Pool, kept: c.Kept, lost: c.Lost, taken: c.Taken, rested: c.Rested}
	for _, q := range c.Queues {
		w.queues = append(w.queues, newQueueWork(q))
	}
	return w
}

// queueWork has the counters of an output's queue, in bytes.
type queueWork struct{ added, written, waiting, limit int64 }

// autoQueue is how many bytes may wait in a queue before the rate falls. During a stall more may
// wait. The limit exists because all waiting bytes are written before the session ends, and a slow
// disk needs a minute or two for this many.
const autoQueue = 256 << 20

func newQueueWork(q Queue) queueWork {
	return queueWork{q.Added, q.Written, q.Added - q.Written, min(q.Limit, autoQueue)}
}

// since returns the work done since an earlier time.
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

// queue returns the work of queue i, or zero if the queue did not exist yet.
func (w *workload) queue(i int) queueWork {
	if i >= len(w.queues) {
		return queueWork{}
	}
	return w.queues[i]
}

// busy returns how long the reader was awake.
func (w *workload) busy() time.Duration { return max(w.elapsed-w.rested, 0) }

// speed returns how many packets the reader read per second while it was awake.
func (w *workload) speed() float64 {
	return float64(w.taken) / max(w.busy(), time.Microsecond).Seconds()
}

// A history has the workloads of the last readings, the oldest first. It covers at most
// averageTime.
type history []workload

// add adds a reading, and drops old ones that are no longer needed.
func (h *history) add(now workload) {
	all := append(*h, now)
	for len(all) > 2 && now.at.Sub(all[1].at) >= averageTime {
		all = all[1:]
	}
	*h = all
}

// ago returns the last reading at least this long before the latest one, and true; without such a
// reading, the oldest one and false.
func (h history) ago(d time.Duration) (*workload, bool) {
	now := &h[len(h)-1]
	for i := len(h) - 2; i >= 0; i-- {
		if now.at.Sub(h[i].at) >= d {
			return &h[i], true
		}
	}
	return &h[0], false
}

// strain returns how overloaded the session is. It has kept one packet of oneIn since the reading
// before the latest one. There must be at least two readings.
func (h history) strain(o Options, oneIn uint32) (s strain) {
	now := &h[len(h)-1]
	tick := now.since(&h[len(h)-2])
	rate := float64(tick.kept)
	if !o.Skips { // only then is this exact
		rate = float64(tick.pool) / float64(oneIn)
	}
	rate /= tick.elapsed.Seconds()
	s.raise(h.ofReader(tick, rate))
	if o.MaxRate > 0 {
		load := rate / (0.95 * float64(o.MaxRate))
		s.raise(strain{lasting: load, calm: load})
	}
	sizes := now.since(&h[0])
	if sizes.taken < 100 { // too few packets for a mean size: use all packets so far
		sizes = now
	}
	for i := range now.queues {
		s.raise(h.ofQueue(i, rate*float64(sizes.queues[i].added)/float64(max(sizes.taken, 1))))
	}
	return s
}

// ofReader returns the strain on the reader and the rings, from a tick in which this many packets
// per second were kept. For a reader that never sleeps, it uses the reader's speed while awake,
// because such a reader may also wait for an output without a queue.
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
		able := max(average.speed(), tick.speed()) // a stall may lower the average
		load = max(min(load, rate/able/busyTarget), 0.9)
	}
	return strain{lasting: load, calm: load}
}

// ofQueue returns the strain on an output's queue, to which `in` bytes per second are added. The
// rate may rise while the queue is less than a sixteenth full and does not grow.
func (h history) ofQueue(i int, in float64) (s strain) {
	average := h[len(h)-1].since(&h[0])
	q := average.queues[i]
	before, _ := h.ago(trendTime)
	grown := q.waiting - before.queue(i).waiting
	written := float64(q.written) / average.elapsed.Seconds()
	if h.hasWaited(i, 2, 2*Interval) {
		// At least one chunk counts as room, so that a long stall does not raise oneIn without end.
		room := float64(max(q.limit-q.waiting, writeSize))
		s.passing = in / (written + room/fullTime.Seconds())
	}
	if q.waiting >= q.limit/16 || grown > q.limit/256+2*writeSize {
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

// hasWaited reports whether at least 1/parts of a queue was in use at all readings of the last d.
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

// isSilent reports whether an output has written no bytes for silentTime.
func (h history) isSilent(i int) bool {
	before, ok := h.ago(silentTime)
	return ok && h[len(h)-1].queue(i).written == before.queue(i).written
}
