package capture

import "math"

// minRecent is how many packets at the end of a file are remembered, at least. They take more room
// than the accounts of as many sources as a session has, and than a few blocks of a disk.
const minRecent = 256

// recent are the last packets of a file, in their order.
type recent struct {
	before  int64 // where in the file the block before the first of these packets ends
	packets []placed
}

// placed says where a packet's block ends, in the queue or in the file, and what the packet adds to
// the accounts; or that the block is none of a packet.
type placed struct {
	end           int64
	time          int64 // Packet.Time: files begin and end by it
	bytes, source uint32
}

// These are in place of placed.source for blocks that are no packets.
const (
	headBlock   = math.MaxUint32 - iota // begins the header of the files that come after
	headMore                            // belongs to that header, too
	otherBlock                          // any other
	packetLimit                         // from here on, all are such
)

func (p *placed) isPacket() bool { return p.source < packetLimit }

// add adds packets at the end, whose places are counted from start on. Of those before, it forgets
// the first ones when there are many. Packets that end at the same place are of one frame, and are
// forgotten together.
func (r *recent) add(packets []placed, start int64) {
	if n := firstOfLast(packets); n > 0 { // then no others are needed
		r.before = packets[n-1].end - start
		r.packets = r.packets[:0]
		packets = packets[n:]
	}
	for _, p := range packets {
		p.end -= start
		r.packets = append(r.packets, p)
	}
	if len(r.packets) < 2*minRecent {
		return
	}
	if n := firstOfLast(r.packets); n > 0 {
		r.before = r.packets[n-1].end
		r.packets = r.packets[:copy(r.packets, r.packets[n:])]
	}
}

// firstOfLast returns which is the first of the last minRecent packets, or of those in the same
// frame. It returns 0 where there are no others.
func firstOfLast(packets []placed) int {
	n := max(len(packets)-minRecent, 0)
	for n > 0 && packets[n-1].end == packets[n].end {
		n--
	}
	return n
}

// last returns the fewest packets at the end of a file of this size that take up as much room, or
// all that are remembered, and the size of the file without them.
func (r *recent) last(size, room int64) (without int64, packets []placed) {
	n := len(r.packets)
	for without = size; n > 0 && size-without < room; n-- {
		without = r.before
		if n > 1 {
			without = r.packets[n-2].end
		}
	}
	return without, r.packets[n:]
}

// forget removes the last packets.
func (r *recent) forget(packets int) {
	r.packets = r.packets[:len(r.packets)-packets]
}
