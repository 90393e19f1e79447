package capfile

import (
	"cmp"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/xdpcap/xdpcap/internal/message"
)

const (
	// maxZstdWindow is the maximum window of a zstd frame in bytes, the memory that its
	// decompression needs. It is the default limit of zstd(1).
	maxZstdWindow = 128 << 20

	// maxZstdWindows is the maximum for the windows of all files with one Memory. It is reduced if
	// little memory is available, but not below minZstdWindows, the window of one frame of zstd
	// -19.
	maxZstdWindows = 1 << 30
	minZstdWindows = 8 << 20
)

// Memory limits the memory for decompressing files that are open at the same time. A compressed
// file of a few bytes may request 128 MiB, and a hundred of them all memory of the machine. Files
// with one Memory together get at most 1 GiB. The zero value is ready to use, and safe for
// concurrent use.
type Memory struct {
	limit int64 // bytes; 0 = maxZstdWindows
	used  atomic.Int64
}

// NewMemory returns a Memory with a quarter of the available bytes, but at least minZstdWindows and
// at most maxZstdWindows.
func NewMemory(available uint64) *Memory {
	return &Memory{limit: int64(max(min(available/4, maxZstdWindows), minZstdWindows))}
}

func (m *Memory) most() int64 { return cmp.Or(m.limit, maxZstdWindows) }

// reserve reserves this many bytes. It returns false if that would exceed the limit.
func (m *Memory) reserve(bytes int64) bool {
	if m.used.Add(bytes) <= m.most() {
		return true
	}
	m.used.Add(-bytes)
	return false
}

// A zstdFrames passes the bytes of a window to the decoder, and reserves the memory for each frame
// before the decoder gets the frame. The decoder keeps the memory of its largest frame.
type zstdFrames struct {
	in     *window
	name   string
	memory *Memory
	held   int64 // bytes of memory reserved

	left     int64 // bytes of the input up to the next header
	inFrame  bool  // the next header is a block's; otherwise a frame's
	checksum bool  // the frame ends with a checksum
	opaque   bool  // the rest is passed on without parsing, because the decoder will reject it
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

// header parses the next header and does not advance. An incomplete header makes the rest opaque.
func (z *zstdFrames) header() error {
	if z.inFrame {
		z.blockHeader()
		return nil
	}
	return z.frameHeader()
}

// blockHeader parses the header of a block (section 3.1.1.2 of RFC 8878).
func (z *zstdFrames) blockHeader() {
	const length = 3
	h, _ := z.in.peek(length)
	if len(h) < length {
		z.opaque = true
		return
	}
	bits := int64(h[0]) | int64(h[1])<<8 | int64(h[2])<<16
	isLast, kind, size := bits&1 != 0, bits>>1&3, bits>>3
	const repeated = 1 // a block of one byte, which the decoder repeats size times
	if kind == repeated {
		size = 1
	}
	z.left = length + size
	if z.inFrame = !isLast; isLast && z.checksum {
		z.left += 4
	}
}

// frameHeader parses the header of a frame, and reserves memory for the frame.
func (z *zstdFrames) frameHeader() error {
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
	if size > maxZstdWindow { // the decoder rejects it
		return nil
	}
	if more := int64(size) - z.held; more > 0 {
		if !z.memory.reserve(more) {
			return message.Errorf(ErrMemory, "decompress %s: its window of %d bytes and those of the other files together exceed %d bytes",
				z.name, size, z.memory.most())
		}
		z.held = int64(size)
	}
	return nil
}

// A zstdFile is the decompressor of a file.
type zstdFile struct {
	decoder *zstd.Decoder
	frames  *zstdFrames
}

// Close frees all memory.
func (z zstdFile) Close() error {
	z.decoder.Close()
	z.frames.memory.used.Add(-z.frames.held)
	z.frames.held = 0
	return nil
}
