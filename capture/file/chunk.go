package file

import (
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// A chunk is memory for blocks and for the ends of the blocks in the file. The goroutine that
// encodes appends to its batch, even while the published blocks are being written.
type chunk struct {
	batch
	published batch
	written   batch

	start int64 // where in the file the first block begins
	mem   []byte
}

// A batch is a sequence of blocks and the packets in them.
type batch struct {
	blocks  []byte
	packets []capture.BlockEnd
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
	c.packets = unsafe.Slice((*capture.BlockEnd)(unsafe.Pointer(&c.mem[0])), chunkPackets)[:0]
	c.blocks = c.mem[endsSize:endsSize]
	c.published, c.written, c.start = batch{}, batch{}, start
}

// hasRoom reports whether one more packet fits, with a block of at most this many bytes. A chunk
// without packets takes a block of any size: append then moves blocks to larger memory.
func (c *chunk) hasRoom(bytes int) bool {
	return cap(c.blocks)-len(c.blocks) >= bytes && len(c.packets) < cap(c.packets) || len(c.packets) == 0
}

// noteEnd records the end of the last block, which is the packet's.
func (c *chunk) noteEnd(p *capture.Packet) {
	c.packets = append(c.packets, capture.BlockEnd{
		End: c.end(), Time: p.Time, Bytes: uint32(len(p.Data)), Source: uint32(p.Source),
	})
}

// noteBlock records the end of the last block, which is not a packet.
func (c *chunk) noteBlock(kind uint32) {
	c.packets = append(c.packets, capture.BlockEnd{End: c.end(), Time: math.MinInt64, Source: kind})
}

// noteInterface records the end of the last block, which describes the source's interface.
func (c *chunk) noteInterface(source int) {
	c.packets = append(c.packets, capture.BlockEnd{End: c.end(), Time: math.MinInt64, Source: headMore, Bytes: uint32(source)})
}

// end is the position in the file at which the last block ends.
func (c *chunk) end() int64 { return c.start + int64(len(c.blocks)) }

// isWritten reports whether all blocks were written. The caller holds the queue's mu.
func (c *chunk) isWritten() bool { return len(c.written.blocks) == len(c.blocks) }
