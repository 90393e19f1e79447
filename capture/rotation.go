package capture

import (
	"time"
)

// A Rotation makes a File a series of files: it says when one of them ends and the next begins, how
// they are called, and when there are enough. Of each number, 0 is no limit.
type Rotation struct {
	// Path returns the path of a file. It may be one that an earlier file had, which is
	// overwritten.
	Path func(Place) string

	Size    int64  // a packet that finds more bytes than this in the file goes into the next one
	Packets uint64 // of a file

	// Period is how long a file is written to. It ends by the wall clock whether packets come or
	// not, and its packets are those that are stamped before. Periods begin at Origin plus a
	// multiple of Period or, where Origin is zero, with each file.
	Period time.Duration
	Origin time.Time

	// Stamped, in place of the wall clock, lets files begin and end by the stamps of their packets,
	// the first one with the first packet: that is for packets of capture files. There is a Period.
	// Where FromFirst says so, Origin is the second of the first stamp.
	Stamped, FromFirst bool

	Files int // the session ends when so many files are finished
	Keep  int // a ring: of the files that are finished, all but the last Keep-1 are removed

	// Left are files that an earlier run of the same ring has left, the oldest first. Those that
	// are regular files, and to which nobody writes, are the ring's from Begin on: they count in
	// Keep and MaxBytes, and are removed or written over as its own are.
	Left []string

	// NoOverwrite makes it an error of the kind [ErrNameTaken] where a file's name is taken by a
	// regular file, of those that are not the ring's own.
	NoOverwrite bool

	// MaxBytes is how many bytes all files together have at most, and MinFree how many are left
	// free on their disk. Before the next write would go beyond that, the session ends or, in a
	// ring, the oldest files are removed; it ends when there are none left.
	MaxBytes, MinFree int64

	// Atomic lets a file have the name of Path only when it is finished, and ".partial" behind that
	// before.
	Atomic bool

	// Finished is called with the path of each file that is finished, in their order, from one
	// goroutine; nil = nothing. Rotation waits when it does not return.
	Finished func(path string)
}

// A Place is where a file stands in the series.
type Place struct {
	Number   int       // of all files, from 0
	InPeriod int       // of those since the period began, from 0
	Period   time.Time // when it began, by the wall clock
	Began    time.Time // when the file began, by the wall clock
}

// isSingle tells whether there is never a second file.
func (r *Rotation) isSingle() bool { return r.Size == 0 && r.Packets == 0 && r.Period == 0 }

// first returns the place of the first file.
func (r *Rotation) first(now time.Time) Place {
	began := now
	if r.Period > 0 && !r.Origin.IsZero() {
		began = r.period(now)
	}
	return Place{Period: began, Began: now}
}

// period returns when the period began in which t is.
func (r *Rotation) period(t time.Time) time.Time {
	since := t.Sub(r.Origin)
	n := since / r.Period
	if since%r.Period < 0 {
		n--
	}
	return r.Origin.Add(n * r.Period)
}

// until returns when the period of a place ends.
func (r *Rotation) until(p Place) time.Time { return p.Period.Add(r.Period) }

// next returns the place behind p of a file that begins at a time. It is in the next period if the
// time is, or in a later one.
func (r *Rotation) next(p Place, at time.Time) Place {
	next := Place{Number: p.Number + 1, InPeriod: p.InPeriod + 1, Period: p.Period, Began: at}
	switch {
	case r.Period > 0 && !at.Before(r.until(p)):
		next.InPeriod = 0
		next.Period = r.until(p)
		if !at.Before(next.Period.Add(r.Period)) { // nothing was written for more than a period
			next.Period = at
			if !r.Origin.IsZero() {
				next.Period = r.period(at)
			}
		}
		next.Began = next.Period
	case r.Origin.IsZero():
		next.Period = at
	}
	return next
}

// setBack returns the place of the file that is written to, when the wall clock was set back before
// it began: its period is counted again from now on.
func (r *Rotation) setBack(p Place, now time.Time) Place {
	p.Period = now
	if !r.Origin.IsZero() {
		p.Period = r.period(now)
	}
	return p
}
