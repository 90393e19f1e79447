package file

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A space counts the free bytes of a disk on which a ring of files removes its oldest files. File
// systems report changes late: XFS reports the room of a removed file up to a second later, and
// btrfs reports removed and written bytes up to half a minute later. Until then the space adds
// these bytes itself. The room of a removed file that another program still has open is counted
// apart.
type space struct {
	shown   int64      // free bytes that the file system last reported
	removed []*removed // files whose room is not yet reported as free, the oldest first

	showsLate bool  // the file system also reports written bytes late
	written   int64 // bytes that are not yet reported as written, if showsLate

	sinceSync int64 // bytes that were written since the last sync began
}

// A removed is a file that was removed or emptied.
type removed struct {
	file  *outfile.Removal // open as long as another program has it open; nil = its room becomes free
	bytes int64            // of its room that are not yet reported as free
	since time.Time        // when its last name was removed and no program had it open any more

	// synced is when the first sync of the disk that began after since has ended; zero before that.
	synced time.Time
}

const (
	// freesLate is how long after a sync of the disk a file system still frees removed files. It is
	// 0 for a file system with space.showsLate.
	freesLate = 5 * time.Second
	// tolerance is how many bytes of a file may be missing when its room is reported as free,
	// because other programs write to the disk at the same time.
	tolerance = 64 << 10
	// maxHeld is how many removed files are held open until other programs close them.
	maxHeld = 64
)

// add adds the room of a removed file; file is not nil if another program has it open.
func (s *space) add(file *outfile.Removal, bytes int64, now time.Time) {
	s.removed = append(s.removed, &removed{file: file, bytes: bytes, since: now})
}

// write adds bytes that are going to be written.
func (s *space) write(bytes int64) {
	if s.showsLate {
		s.written += bytes
		s.sinceSync += bytes
	}
}

// update processes the free bytes that the file system reports now. An increase is the room of the
// oldest removed files, and a decrease is bytes that were written.
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
		own := min(freed, r.bytes)
		freed -= own
		r.bytes -= own
		// Some room is never freed, as that of a file in a snapshot.
		neverFreed := !r.synced.IsZero() && (s.showsLate || now.Sub(r.synced) > freesLate)
		return r.bytes == 0 || own > 0 && r.bytes < tolerance || neverFreed
	})
}

// free returns how many bytes may be written, by the last update. held is how many more may be
// written after other programs have closed removed files.
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

// needsSync reports whether a sync of the disk would make the file system report more free bytes.
func (s *space) needsSync() bool {
	return slices.ContainsFunc(s.removed, func(r *removed) bool { return r.file == nil && r.synced.IsZero() })
}

// endSync records that a sync of the disk that began at a time has ended now. Call update before
// it.
func (s *space) endSync(began, now time.Time) {
	for _, r := range s.removed {
		if r.file == nil && r.synced.IsZero() && r.since.Before(began) {
			r.synced = now
		}
	}
	s.written = min(s.written, s.sinceSync)
}

// holdsMost reports whether no further removed file can be held open until other programs close it.
func (s *space) holdsMost() bool { return len(s.removed) >= maxHeld }

func (s *space) close() {
	for _, r := range s.removed {
		if r.file != nil {
			r.file.Close()
		}
	}
	s.removed = nil
}
