package capfile

import (
	"cmp"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	// maxZstdWindow is the most memory in bytes that a zstd frame may ask for: as much as zstd(1)
	// grants without being asked.
	maxZstdWindow = 128 << 20

	// maxZstdWindows is the most that the frames of all files with one Memory may ask for. They may
	// ask for minZstdWindows however little memory is available: one frame of zstd -19 needs that.
	maxZstdWindows = 1 << 30
	minZstdWindows = 8 << 20
)

// Memory is what decompression takes for files that are open at the same time. A compressed file of
// a few bytes may ask for 128 MiB, and a hundred of them for all that the machine has: those with
// one Memory have a GiB together, or less. The zero value is ready to use, by any goroutine.
type Memory struct {
	limit int64 // bytes; 0 = maxZstdWindows
	used  atomic.Int64
}

// NewMemory returns a Memory that has no more than a quarter of the bytes that are available, but
// minZstdWindows in any case.
func NewMemory(available uint64) *Memory {
	return &Memory{limit: int64(max(min(available/4, maxZstdWindows), minZstdWindows))}
}

// most is how many bytes it has.
func (m *Memory) most() int64 { return cmp.Or(m.limit, maxZstdWindows) }

// take takes so many bytes, unless they are too many.
func (m *Memory) take(bytes int64) bool {
	if m.used.Add(bytes) <= m.most() {
		return true
	}
	m.used.Add(-bytes)
	return false
}

// A zstdFrames hands what a window holds to the decoder, and takes the memory that each frame asks
// for before the decoder sees the frame. The decoder keeps the memory of its largest frame.
type zstdFrames struct {
	in     *window
	name   string
	memory *Memory
	held   int64 // bytes of memory

	left     int64 // bytes of the input up to the next header
	inFrame  bool  // the next header is a block's, or else a frame's
	checksum bool  // the frame ends with one
	opaque   bool  // it is no zstd from here on, as the decoder will find, too
}

func (z *zstdFrames) Read(b []byte) (int, error) {
	for z.left == 0 && !z.opaque {
		if err := z.header(); err != nil {
			return 0, err
		}
	}
	if !z.opaque && int64(len(b)) > z.left {
		b = b[:z.left]
	}
	n, err := z.in.Read(b)
	if !z.opaque {
		z.left -= int64(n)
	}
	return n, err
}

// header reads the next header, without going on. A header that is not all there makes the rest
// opaque.
func (z *zstdFrames) header() error {
	if z.inFrame {
		const length = 3
		h, _ := z.in.peek(length)
		if len(h) < length {
			z.opaque = true
			return nil
		}
		bits := int64(h[0]) | int64(h[1])<<8 | int64(h[2])<<16
		z.left = length + bits>>3
		if kind := bits >> 1 & 3; kind == 1 { // one byte that is repeated
			z.left = length + 1
		}
		if z.inFrame = bits&1 == 0; !z.inFrame && z.checksum {
			z.left += 4
		}
		return nil
	}
	var h zstd.Header
	start, _ := z.in.peek(zstd.HeaderMaxSize)
	if err := h.Decode(start); err != nil {
		z.opaque = true
		return nil
	}
	z.left = int64(h.HeaderSize)
	if h.Skippable {
		z.left += int64(h.SkippableSize)
		return nil
	}
	z.inFrame, z.checksum = true, h.HasCheckSum
	size := h.WindowSize
	if h.SingleSegment {
		size = h.FrameContentSize
	}
	if size > maxZstdWindow { // which the decoder refuses
		return nil
	}
	if more := int64(size) - z.held; more > 0 {
		if !z.memory.take(more) {
			return xdp.Kind(ErrMemory, "unpack %s: its window of %d bytes and those of the other files have more than %d together",
				z.name, size, z.memory.most())
		}
		z.held = int64(size)
	}
	return nil
}

// A zstdFile is what decompresses a file.
type zstdFile struct {
	decoder *zstd.Decoder
	frames  *zstdFrames
}

// Close gives all memory back.
func (z zstdFile) Close() error {
	z.decoder.Close()
	z.frames.memory.used.Add(-z.frames.held)
	z.frames.held = 0
	return nil
}
