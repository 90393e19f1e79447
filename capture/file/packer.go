package file

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A packer compresses a capture file in parts, which it appends to a buffer. A part is called a
// frame here, although it is a member in gzip, and some of the blocks of a single frame in zstd. A
// truncated file can be read up to its last whole frame, and whole frames can be removed from the
// end of a file. A packer serves one file after the other, and is not safe for concurrent use.
type packer interface {
	// begin begins a file.
	begin()
	// pack appends a frame of these blocks of the file.
	pack(dst, blocks []byte) []byte
	// end appends the last frame of the file. If it is the only frame, it must have no blocks. It
	// does not depend on the content of earlier frames, so some of these may have been removed from
	// the file.
	end(dst, blocks []byte) []byte
}

// frameSize is about how many bytes of blocks are compressed together: with fewer bytes files grow,
// with more bytes readers wait longer, and lose more when the process is killed.
const frameSize = 256 << 10

// windowSize is how far back a zstd frame may look, in bytes.
const windowSize = 2 * frameSize

// A gzipPacker makes each frame a member, of which a file may have many.
type gzipPacker struct{ w *gzip.Writer }

func newGzipPacker() packer {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	return gzipPacker{w}
}

func (p gzipPacker) begin() {}

func (p gzipPacker) pack(dst, blocks []byte) []byte {
	out := bytes.NewBuffer(dst)
	p.w.Reset(out)
	p.w.Write(blocks) // a buffer takes everything
	p.w.Close()
	return out.Bytes()
}

func (p gzipPacker) end(dst, blocks []byte) []byte {
	if len(blocks) == 0 {
		return dst
	}
	return p.pack(dst, blocks)
}

// A zstdPacker writes a single zstd frame per file, because Wireshark 4.0 does not find a second
// frame that begins more than 128 KiB after the beginning of the file.
type zstdPacker struct {
	w     *zstd.Encoder
	out   bytes.Buffer
	begun bool // the header of the file's frame was written
}

func newZstdPacker() packer {
	p := new(zstdPacker)
	// With a concurrency of 1 there are no goroutines other than the caller's. There is no
	// checksum, because end does not have the file's content. The options are valid, so there is no
	// error.
	p.w, _ = zstd.NewWriter(&p.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(windowSize), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	return p
}

func (p *zstdPacker) begin() {
	p.w.Reset(&p.out)
	p.begun = false
}

func (p *zstdPacker) pack(dst, blocks []byte) []byte {
	p.out.Reset()
	p.w.Write(blocks) // a buffer takes everything
	p.w.Flush()
	p.begun = p.begun || p.out.Len() > 0
	return append(dst, p.out.Bytes()...)
}

// end appends raw blocks (section 3.1.1.2 of RFC 8878). Only the last one may have 0 bytes.
func (p *zstdPacker) end(dst, blocks []byte) []byte {
	const most, last = 128 << 10, 1 // bytes of a block; the bit Last_Block
	if !p.begun {
		dst = append(dst, emptyFrame...)
		p.begun = true
	}
	for ; len(blocks) > most; blocks = blocks[most:] {
		dst = append(appendUint24(dst, most<<3), blocks[:most]...)
	}
	return append(appendUint24(dst, uint32(len(blocks))<<3|last), blocks...)
}

// emptyFrame begins the frame of a file without packets or a header: the magic number, and a
// content size of 0 bytes.
const emptyFrame = "\x28\xb5\x2f\xfd\x20\x00"

func appendUint24(b []byte, v uint32) []byte { return append(b, byte(v), byte(v>>8), byte(v>>16)) }
