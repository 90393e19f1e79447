package capture

import (
	"bytes"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A Compression is what a capture file is compressed by.
type Compression int

const (
	NoCompression Compression = iota
	Gzip                      // RFC 1952, in members of at most some 256 KiB of blocks
	Zstd                      // RFC 8878, in frames of at most some 256 KiB of blocks
)

// FormatByName returns the format and the compression that belong to the suffixes of a file's name:
// .pcap, .json or .jsonl, and anything else is pcapng; .gz or .zst behind that.
func FormatByName(path string) (Format, Compression) {
	_, format, compression := outfile.SplitName(path)
	f, c := PCAPNG, NoCompression
	switch strings.ToLower(format) {
	case ".pcap":
		f = PCAP
	case ".json", ".jsonl":
		f = JSON
	}
	switch strings.ToLower(compression) {
	case ".gz":
		c = Gzip
	case ".zst":
		c = Zstd
	}
	return f, c
}

// HasFormatName tells whether a file's name has a suffix that FormatByName knows a format by.
func HasFormatName(path string) bool {
	_, format, _ := outfile.SplitName(path)
	return format != ""
}

// frameSize is about how many bytes of blocks are compressed together. What was written can be read
// up to the last whole frame when the process is killed.
const frameSize = chunkSize

// frames collects blocks, and compresses those that it has to one frame, which can be read without
// what comes behind it. It serves one file after the other.
type frames struct {
	packer
	blocks  []byte
	packets []placed
	packed  []byte // kept, so that none is allocated for each frame
}

// A packer appends frames to a buffer.
type packer interface {
	// begin begins a file.
	begin()
	// pack appends a frame of these blocks.
	pack(dst, blocks []byte) []byte
	// end appends a frame that is the last one of the file. It does not depend on what the frames
	// before it had, so that some of them may have been taken off the file.
	end(dst, blocks []byte) []byte
}

// newFrames returns nil where there is no compression.
func newFrames(c Compression) *frames {
	switch c {
	case Gzip:
		return &frames{packer: newGzipPacker()}
	case Zstd:
		return &frames{packer: newZstdPacker()}
	}
	return nil
}

// add collects blocks and their packets.
func (f *frames) add(blocks []byte, packets []placed) {
	f.blocks = append(f.blocks, blocks...)
	f.packets = append(f.packets, packets...)
}

// isFull tells whether what was collected is worth a frame.
func (f *frames) isFull() bool { return len(f.blocks) >= frameSize }

// seal compresses what was collected, and returns it with the packets in it. Both are valid until
// the next call.
func (f *frames) seal() (packed []byte, packets []placed) {
	f.packed = f.pack(f.packed[:0], f.blocks)
	packets = f.packets
	f.blocks, f.packets = f.blocks[:0], f.packets[:0]
	return f.packed, packets
}

// A gzipPacker makes each frame a member, of which a file may have many.
type gzipPacker struct{ w *gzip.Writer }

func newGzipPacker() gzipPacker {
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

// A zstdPacker makes each frame a few blocks of the one frame of zstd that a file has. Wireshark
// 4.0 does not find the beginning of a second one that is more than 128 KiB behind that of the
// file.
type zstdPacker struct {
	w     *zstd.Encoder
	out   bytes.Buffer
	begun bool // the file's frame has its header
}

func newZstdPacker() *zstdPacker {
	p := new(zstdPacker)
	// With a concurrency of 1 there are no goroutines besides the one that calls. There is no
	// checksum, because end does not know what is in the file. The options are valid ones.
	p.w, _ = zstd.NewWriter(&p.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(2*frameSize), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
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

// end appends raw blocks, as section 3.1.1.2 of RFC 8878 has them: the last one's header says that
// it is the last one, and there may be none of 0 bytes but that.
func (p *zstdPacker) end(dst, blocks []byte) []byte {
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
