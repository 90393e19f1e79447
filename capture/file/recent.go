package file

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// minRecent is how many of the last blocks of a file a `recent` has at least, if there are so many.
// Their removal makes enough room for the statistics of all sources of a session.
const minRecent = 256

// recent has the ends of the last blocks of a file, in order. These blocks can still be removed.
type recent struct {
	before int64 // the position in the file at which the first of these blocks begins
	ends   []capture.BlockEnd
}

// add adds blocks at the end. Their ends are positions in the queue, as is start, where the file
// begins; r keeps positions in the file. When there are many blocks, it drops the first ones.
// Blocks that end at the same position are in one compressed frame, and are dropped together.
func (r *recent) add(ends []capture.BlockEnd, start int64) {
	if n := firstOfLast(ends); n > 0 { // the new blocks are enough, so drop all earlier ones
		r.before = ends[n-1].End - start
		r.ends = r.ends[:0]
		ends = ends[n:]
	}
	for _, b := range ends {
		b.End -= start
		r.ends = append(r.ends, b)
	}
	if len(r.ends) < 2*minRecent {
		return
	}
	if n := firstOfLast(r.ends); n > 0 {
		r.before = r.ends[n-1].End
		r.ends = r.ends[:copy(r.ends, r.ends[n:])]
	}
}

// firstOfLast returns the index of the first of the last minRecent blocks, or of the first block in
// the same frame.
func firstOfLast(ends []capture.BlockEnd) int {
	n := max(len(ends)-minRecent, 0)
	for n > 0 && ends[n-1].End == ends[n].End {
		n--
	}
	return n
}

// last returns the fewest blocks at the end of a file of this size that take up at least this much
// room, or all in r, and the size of the file without them.
func (r *recent) last(size, room int64) (without int64, ends []capture.BlockEnd) {
	n := len(r.ends)
	// Removing a block of a frame makes no room until it is the first: the blocks before it in the
	// frame have the same end. So the loop stops only between frames.
	for without = size; n > 0 && size-without < room; n-- {
		without = r.before
		if n > 1 {
			without = r.ends[n-2].End
		}
	}
	return without, r.ends[n:]
}

// dropLast drops this many of the last blocks.
func (r *recent) dropLast(blocks int) {
	r.ends = r.ends[:len(r.ends)-blocks]
}

// firstStamp returns the time stamp of the first packet; without a packet, the present time.
func firstStamp(ends []capture.BlockEnd) time.Time {
	if i := slices.IndexFunc(ends, func(b capture.BlockEnd) bool { return isPacket(&b) }); i >= 0 {
		return time.Unix(0, ends[i].Time)
	}
	return time.Now().Round(0)
}
