package file

import (
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// minRecent is the minimum number of packets in a `recent` of a longer file. Their removal makes
// enough room for the statistics of all sources of a session.
const minRecent = 256

// recent has the last packets of a file, in order: those that may be removed from its end.
type recent struct {
	before  int64 // the position in the file at which the first of them begins
	packets []capture.BlockEnd
}

// add adds packets at the end. Their ends are positions in the queue, where the file begins at
// start. When there are many packets, it drops the first ones. Packets that end at the same
// position are in one frame, and are dropped together.
func (r *recent) add(packets []capture.BlockEnd, start int64) {
	if n := firstOfLast(packets); n > 0 { // the new packets are enough, so drop all earlier ones
		r.before = packets[n-1].End - start
		r.packets = r.packets[:0]
		packets = packets[n:]
	}
	for _, p := range packets {
		p.End -= start
		r.packets = append(r.packets, p)
	}
	if len(r.packets) < 2*minRecent {
		return
	}
	if n := firstOfLast(r.packets); n > 0 {
		r.before = r.packets[n-1].End
		r.packets = r.packets[:copy(r.packets, r.packets[n:])]
	}
}

// firstOfLast returns the index of the first of the last minRecent packets, or of the first packet
// in the same frame as that one.
func firstOfLast(packets []capture.BlockEnd) int {
	n := max(len(packets)-minRecent, 0)
	for n > 0 && packets[n-1].End == packets[n].End {
		n--
	}
	return n
}

// last returns the fewest packets at the end of a file of this size that take up at least this much
// room, or all in r, and the size of the file without them.
func (r *recent) last(size, room int64) (without int64, packets []capture.BlockEnd) {
	n := len(r.packets)
	for without = size; n > 0 && size-without < room; n-- {
		without = r.before
		if n > 1 {
			without = r.packets[n-2].End
		}
	}
	return without, r.packets[n:]
}

// dropLast drops this many of the last packets.
func (r *recent) dropLast(packets int) {
	r.packets = r.packets[:len(r.packets)-packets]
}

// firstStamp returns the time stamp of the first packet; without a packet, the present time.
func firstStamp(packets []capture.BlockEnd) time.Time {
	if i := slices.IndexFunc(packets, func(b capture.BlockEnd) bool { return isPacket(&b) }); i >= 0 {
		return time.Unix(0, packets[i].Time)
	}
	return time.Now().Round(0)
}
