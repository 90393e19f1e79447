package file

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Rotation makes a File a series of files. It has the limits at which one file ends and the next
// begins, the files' names, and the limits at which the series ends. A limit of 0 is no limit.
type Rotation struct {
	// Path returns the path of a file. If it is the path of an earlier file, that file is
	// overwritten. If another user's file has the path, and the new file is not the first or is one
	// of a ring, Path is called again with InPeriod and Passed increased by 1.
	Path func(Place) string

	Size    int64  // when a file has more bytes than this, the next packet begins a new file
	Packets uint64 // packets in a file

	// Period is how long a file is written to. It ends by the wall clock, even if no packets come,
	// and the file gets the packets that are stamped before its end. Periods begin at Origin plus a
	// multiple of Period or, if Origin is zero, with each file.
	Period time.Duration
	Origin time.Time

	// Stamped makes files begin and end by the stamps of their packets instead of the wall clock;
	// the first file begins with the first packet. It is for packets of capture files, and needs a
	// Period. FromFirst sets Origin to the first stamp, rounded down to a second.
	Stamped, FromFirst bool

	Files int // the session ends when this many files are finished
	Keep  int // a ring of files: only the last Keep-1 finished files are kept

	// Left are files that an earlier run of the same ring of files has left, the oldest first. At
	// Begin the ring takes over each that is a regular file, not another user's, and not open for
	// writing. These files count in Keep and MaxBytes, and are removed or overwritten like its own.
	Left []string

	// NoOverwrite makes it an error of the kind [ErrNameTaken] if a regular file with a file's name
	// exists and is not one of the ring's own.
	NoOverwrite bool

	// MaxBytes limits the bytes of all files together, and MinFree is how many bytes stay free on
	// their disk. A write that would violate MaxBytes ends the session; a write that would violate
	// MinFree ends it with an error of the kind [ErrDiskLow]. A ring of files instead removes as
	// many of its oldest files as needed. It removes files that other programs have open last,
	// because the disk does not get their room back. If no file is left to remove, packets are not
	// taken until there is room.
	MaxBytes, MinFree int64

	// Atomic gives a file the name of Path only when it is finished. Until then its name also ends
	// in ".partial".
	Atomic bool

	// Finished, if not nil, is called with the path of each finished file, in order, from one
	// goroutine. Rotation may wait for it to return.
	Finished func(path string)
}

// A Place is the position of a file in the series.
type Place struct {
	Number   int       // index among all files, from 0
	InPeriod int       // index among the files and passed names of the period, from 0
	Passed   int       // names that were passed over before, because other users' files have them
	Period   time.Time // when the period began, by the wall clock
	Began    time.Time // when the file began, by the wall clock
}

// hasLeft reports whether an earlier run has left a file of a path, finished or not.
func (r *Rotation) hasLeft(path string) bool {
	return slices.ContainsFunc(r.Left, func(left string) bool { return isFileOf(path, left) })
}

// isFileOf reports whether a name is the path of a file or its temporary name until the file is
// finished.
func isFileOf(path, name string) bool { return name == path || name == path+outfile.Partial }

// fileSize returns the size at which a file ends; 0 = no limit. If a ring of files has no room for
// two files of Size, each has half of its room, because only finished files can be removed.
func (r *Rotation) fileSize() int64 {
	if half := r.MaxBytes / 2; r.Keep > 0 && half > 0 && (r.Size == 0 || half < r.Size) {
		return half
	}
	return r.Size
}

// isSingle reports whether there is never a second file.
func (r *Rotation) isSingle() bool { return r.Size == 0 && r.Packets == 0 && r.Period == 0 }

func (r *Rotation) first(now time.Time) Place {
	began := now
	if r.Period > 0 && !r.Origin.IsZero() {
		began = r.period(now)
	}
	return Place{Period: began, Began: now}
}

// period returns the beginning of the period that contains t.
func (r *Rotation) period(t time.Time) time.Time {
	since := t.Sub(r.Origin)
	n := since / r.Period
	if since%r.Period < 0 {
		n--
	}
	return r.Origin.Add(n * r.Period)
}

func (r *Rotation) until(p Place) time.Time { return p.Period.Add(r.Period) }

// next returns the place after p for a file that begins at a time. The time decides whether it is
// in the same period or a later one.
func (r *Rotation) next(p Place, at time.Time) Place {
	next := Place{Number: p.Number + 1, InPeriod: p.InPeriod + 1, Passed: p.Passed, Period: p.Period, Began: at}
	switch {
	case r.Period > 0 && !at.Before(r.until(p)):
		next.InPeriod = 0
		next.Period = r.until(p)
		if !at.Before(next.Period.Add(r.Period)) { // no file was written for more than a period
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

// setBack returns the current file's place after the wall clock was set back to before its period:
// the period then starts at now or, with Origin, is the period that contains now.
func (r *Rotation) setBack(p Place, now time.Time) Place {
	p.Period = now
	if !r.Origin.IsZero() {
		p.Period = r.period(now)
	}
	return p
}
