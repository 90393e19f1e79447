package meter

import "time"

// An Interval has two snapshots of the same counters. S is the type of a snapshot; its zero value
// has no counts.
type Interval[S any] struct {
	Before, Now S
	End         time.Time     // when Now was taken, CLOCK_REALTIME
	Took        time.Duration // from Before to Now, CLOCK_MONOTONIC
	Elapsed     time.Duration // from the opening of the counters to Now, CLOCK_MONOTONIC
}

// Next returns the interval from the end of this one to a later snapshot. elapsed is the time since
// the counters were opened. The zero Interval ends when they were opened.
func (i Interval[S]) Next(now S, end time.Time, elapsed time.Duration) Interval[S] {
	return Interval[S]{Before: i.Now, Now: now, End: end, Took: elapsed - i.Elapsed, Elapsed: elapsed}
}

// Whole returns the interval from the opening of the counters to the end of this one.
func (i Interval[S]) Whole() Interval[S] {
	return Interval[S]{Now: i.Now, End: i.End, Took: i.Elapsed, Elapsed: i.Elapsed}
}

// PerSecond returns how fast a cumulative counter rose from before to now. It is 0 if no time has
// passed, or if the counter fell because a new one replaced it.
func PerSecond(before, now uint64, took time.Duration) float64 {
	if took <= 0 || now < before {
		return 0
	}
	return float64(now-before) / took.Seconds()
}

// A Rate has the packets and bytes since the counters were opened, and their rates in an interval.
type Rate struct {
	Packets          uint64  `json:"packets"`       // cumulative
	Bytes            uint64  `json:"bytes"`         // cumulative
	PacketsPerSecond float64 `json:"packets_per_s"` // in the interval
	BitsPerSecond    float64 `json:"bits_per_s"`    // in the interval
}

// Add adds another rate.
func (r *Rate) Add(more Rate) {
	r.Packets += more.Packets
	r.Bytes += more.Bytes
	r.PacketsPerSecond += more.PacketsPerSecond
	r.BitsPerSecond += more.BitsPerSecond
}

// NewRate compares two snapshots of one tally.
func NewRate(before, now Tally, took time.Duration) Rate {
	return Rate{
		Packets:          now.Packets,
		Bytes:            now.Bytes,
		PacketsPerSecond: PerSecond(before.Packets, now.Packets, took),
		BitsPerSecond:    8 * PerSecond(before.Bytes, now.Bytes, took),
	}
}
