// Package compress compresses capture files in frames, so that a file which is cut off can be read
// up to its last whole frame, and what was written can be taken back by frames.
package compress

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Packer appends frames to a buffer: what can be read without what comes behind it. It serves one
// file after the other, and is not safe for concurrent use.
type Packer interface {
	// Begin begins a file.
	Begin()
	// Pack appends a frame of these blocks of the file.
	Pack(dst, blocks []byte) []byte
	// End appends a frame that is the last one of the file; if it is the only one, it must have no
	// blocks. It does not depend on what the frames before it had, so that some of them may have
	// been taken off the file.
	End(dst, blocks []byte) []byte
}

// FrameSize is about how many bytes of blocks should be compressed together: files grow if there
// are fewer, and readers wait longer if there are more.
const FrameSize = 256 << 10

// windowSize is how far back a zstd frame may look, in bytes.
const windowSize = 2 * FrameSize

// A gzipPacker makes each frame a member, of which a file may have many.
type gzipPacker struct{ w *gzip.Writer }

// Gzip returns a Packer of RFC 1952.
func Gzip() Packer {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	return gzipPacker{w}
}

func (p gzipPacker) Begin() {}

func (p gzipPacker) Pack(dst, blocks []byte) []byte {
	out := bytes.NewBuffer(dst)
	p.w.Reset(out)
	p.w.Write(blocks) // a buffer takes everything
	p.w.Close()
	return out.Bytes()
}

func (p gzipPacker) End(dst, blocks []byte) []byte {
	if len(blocks) == 0 {
		return dst
	}
	return p.Pack(dst, blocks)
}

// A zstdPacker makes each frame a few blocks of the one frame of zstd that a file has. Wireshark
// 4.0 does not find the beginning of a second one that is more than 128 KiB behind that of the
// file.
type zstdPacker struct {
	w     *zstd.Encoder
	out   bytes.Buffer
	begun bool // the file's frame has its header
}

// Zstd returns a Packer of RFC 8878.
func Zstd() Packer {
	p := new(zstdPacker)
	// With a concurrency of 1 there are no goroutines besides the one that calls. There is no
	// checksum, because End does not know what is in the file. The options are valid ones.
	p.w, _ = zstd.NewWriter(&p.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(windowSize), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	return p
}

func (p *zstdPacker) Begin() {
	p.w.Reset(&p.out)
	p.begun = false
}

func (p *zstdPacker) Pack(dst, blocks []byte) []byte {
	p.out.Reset()
	p.w.Write(blocks) // a buffer takes everything
	p.w.Flush()
	p.begun = p.begun || p.out.Len() > 0
	return append(dst, p.out.Bytes()...)
}

// End appends raw blocks, as section 3.1.1.2 of RFC 8878 has them: the last one's header says that
// it is the last one, and there may be none of 0 bytes but that.
func (p *zstdPacker) End(dst, blocks []byte) []byte {
	const most, last = 128 << 10, 1
	if !p.begun {
		dst = append(dst, emptyFrame...)
		p.begun = true
	}
	for ; len(blocks) > most; blocks = blocks[most:] {
		dst = append(appendUint24(dst, most<<3), blocks[:most]...)
	}
	return append(appendUint24(dst, uint32(len(blocks))<<3|last), blocks...)
}

// emptyFrame begins a frame of a file without packets or a header: its magic number, and that its
// content has 0 bytes.
const emptyFrame = "\x28\xb5\x2f\xfd\x20\x00"

func appendUint24(b []byte, v uint32) []byte { return append(b, byte(v), byte(v>>8), byte(v>>16)) }
