package file

import (
	"fmt"
	"iter"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// Values of BlockEnd.Source for blocks that are not packets.
const (
	headBlock   = math.MaxUint32 - iota // begins the header of the files that follow
	headMore                            // continues that header; in a live capture it describes the interface of the source with the index in Bytes
	otherBlock                          // any other block
	packetLimit                         // sources of packets are below this
)

func isPacket(b *capture.BlockEnd) bool { return b.Source < packetLimit }

// A batch is a sequence of blocks, and the end of each of them, whether it is a packet or not.
type batch struct {
	blocks []byte
	ends   []capture.BlockEnd
}

// beginOf returns the position in the queue at which blocks with these ends begin; 0 if there are
// none.
func beginOf(blocks []byte, ends []capture.BlockEnd) int64 {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1].End - int64(len(blocks))
}

// eachBlock yields each of some blocks with its end.
func eachBlock(blocks []byte, ends []capture.BlockEnd) iter.Seq2[[]byte, *capture.BlockEnd] {
	return func(yield func([]byte, *capture.BlockEnd) bool) {
		first := beginOf(blocks, ends)
		begin := first
		for i := range ends {
			if !yield(blocks[begin-first:ends[i].End-first], &ends[i]) {
				return
			}
			begin = ends[i].End
		}
	}
}

// A chunk is memory for blocks and their ends. The goroutine that encodes appends to its batch,
// even while the published part of it is being written. Positions in the queue count all bytes that
// were ever added to its chunks.
type chunk struct {
	batch
	published batch // the part of batch that may be written; guarded by the queue's mu
	written   batch // the part of published that was written; guarded by the queue's mu

	start int64 // the position in the queue at which the first block begins
	mem   []byte
}

func newChunk() (*chunk, error) {
	// All pages of a chunk are allocated at once, which is several times as fast as one by one.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	mem, err := unix.Mmap(-1, 0, chunkSize, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("allocate memory for packets that wait to be written: %w", os.NewSyscallError("mmap", err))
	}
	return &chunk{mem: mem}, nil
}

// reset empties a chunk. Its memory holds the ends of the blocks first, and then the blocks.
func (c *chunk) reset(start int64) {
	const endsSize = chunkPackets * unsafe.Sizeof(capture.BlockEnd{})
	c.ends = unsafe.Slice((*capture.BlockEnd)(unsafe.Pointer(&c.mem[0])), chunkPackets)[:0]
	c.blocks = c.mem[endsSize:endsSize]
	c.published, c.written, c.start = batch{}, batch{}, start
}

// hasRoom reports whether one more packet fits, with a block of at most this many bytes. A chunk
// without packets takes a block of any size: append then moves blocks to larger memory.
func (c *chunk) hasRoom(bytes int) bool {
	return cap(c.blocks)-len(c.blocks) >= bytes && len(c.ends) < cap(c.ends) || len(c.ends) == 0
}

// notePacket records the end of the last block, which is a packet's.
func (c *chunk) notePacket(p *capture.Packet) {
	c.ends = append(c.ends, capture.BlockEnd{
		End: c.end(), Time: p.Time, Bytes: uint32(len(p.Data)), Source: uint32(p.Source),
	})
}

// noteBlock records the end of the last block, which is not a packet but a headBlock, headMore or
// otherBlock. Such a block has no time.
func (c *chunk) noteBlock(kind uint32) {
	c.ends = append(c.ends, capture.BlockEnd{End: c.end(), Time: math.MinInt64, Source: kind})
}

// noteInterface records the end of the last block, which describes the source's interface.
func (c *chunk) noteInterface(source int) {
	c.ends = append(c.ends, capture.BlockEnd{End: c.end(), Time: math.MinInt64, Source: headMore, Bytes: uint32(source)})
}

// end is the position in the queue at which the last block ends.
func (c *chunk) end() int64 { return c.start + int64(len(c.blocks)) }

// isWritten reports whether all blocks were written. The caller holds the queue's mu.
func (c *chunk) isWritten() bool { return len(c.written.blocks) == len(c.blocks) }
