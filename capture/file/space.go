package file

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A space counts the free bytes of a disk on which a ring of files removes its oldest files. File
// systems show changes late: XFS shows the room of a removed file up to a second later, and btrfs
// shows removed and written bytes up to half a minute later. Until then the space counts these
// bytes itself. The room of a removed file that another program still has open is counted apart.
type space struct {
	shown   int64      // what the file system last showed as free
	removed []*removed // whose room was not shown as free yet, the oldest first

	isLate  bool  // the file system also shows late what was written
	written int64 // bytes that were not shown as written yet, if isLate

	sinceSync int64 // bytes that were written since the last sync began
}

// A removed is a file that was removed or emptied.
type removed struct {
	file  *outfile.Removal // open as long as another program has it open; nil = its room becomes free
	bytes int64            // that were not shown as free yet
	since time.Time        // when its room began to become free

	// synced is when the first sync of the disk ended that began after that; zero = none has.
	synced time.Time
}

const (
	// freesLate is how long after a sync of the disk a file system still frees removed files,
	// unless it isLate.
	freesLate = 5 * time.Second
	// trifle is what may be missing where a file's room is shown as free, because others write to
	// the disk at the same time.
	trifle = 64 << 10
	// maxHeld is how many removed files are watched until other programs close them.
	maxHeld = 64
)

// add adds the room of a removed file; file is not nil if another program has it open.
func (s *space) add(file *outfile.Removal, bytes int64, now time.Time) {
	s.removed = append(s.removed, &removed{file: file, bytes: bytes, since: now})
}

// write adds bytes that are going to be written.
func (s *space) write(bytes int64) {
	if s.isLate {
		s.written += bytes
		s.sinceSync += bytes
	}
}

// update takes what the file system shows as free now.
func (s *space) update(shown int64, now time.Time) {
	freed := max(shown-s.shown, 0)
	s.written -= min(max(s.shown-shown, 0), s.written)
	s.shown = shown
	s.removed = slices.DeleteFunc(s.removed, func(r *removed) bool {
		if r.file != nil {
			if !r.file.Frees(0) {
				return false
			}
			r.file.Close()
			r.file, r.since = nil, now
		}
		seen := min(freed, r.bytes)
		freed -= seen
		r.bytes -= seen
		isLost := !r.synced.IsZero() && (s.isLate || now.Sub(r.synced) > freesLate)
		return r.bytes == 0 || seen > 0 && r.bytes < trifle || isLost
	})
}

// free is how many bytes may be written, by the last update; held is how many more there will be
// when other programs have closed removed files.
func (s *space) free() (free, held int64) {
	free = s.shown - s.written
	for _, r := range s.removed {
		if r.file == nil {
			free += r.bytes
		} else {
			held += r.bytes
		}
	}
	return free, held
}

// needsSync tells whether a sync of the disk would make it show more as free.
func (s *space) needsSync() bool {
	return slices.ContainsFunc(s.removed, func(r *removed) bool { return r.file == nil && r.synced.IsZero() })
}

// endSync says that a sync has ended now which began at a time. Call update before it.
func (s *space) endSync(began, now time.Time) {
	for _, r := range s.removed {
		if r.file == nil && r.synced.IsZero() && r.since.Before(began) {
			r.synced = now
		}
	}
	s.written = min(s.written, s.sinceSync)
}

// watches tells whether one more removed file can be watched until it is closed.
func (s *space) watches() bool { return len(s.removed) < maxHeld }

// close stops watching removed files.
func (s *space) close() {
	for _, r := range s.removed {
		if r.file != nil {
			r.file.Close()
		}
	}
	s.removed = nil
}
