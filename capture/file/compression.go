package file

import "github.com/xdpcap/xdpcap/capture"

// A Compression is how a capture file is compressed.
type Compression int

const (
	NoCompression Compression = iota
	Gzip                      // RFC 1952: at least a member for each 256 KiB
	Zstd                      // RFC 8878: one frame, with at least a block for each 256 KiB
)

// frames collects blocks and compresses them into frames. A frame can be read without the frames
// after it: see packer. One value serves one file after the other.
type frames struct {
	packer
	blocks []byte // not compressed yet
	ends   []capture.BlockEnd
	packed []byte // reused for each frame
}

// newFrames returns nil for NoCompression.
func newFrames(c Compression) *frames {
	switch c {
	case Gzip:
		return &frames{packer: newGzipPacker()}
	case Zstd:
		return &frames{packer: newZstdPacker()}
	}
	return nil
}

// add collects blocks and their ends.
func (f *frames) add(blocks []byte, ends []capture.BlockEnd) {
	f.blocks = append(f.blocks, blocks...)
	f.ends = append(f.ends, ends...)
}

// isFull reports whether the collected blocks fill a frame.
func (f *frames) isFull() bool { return len(f.blocks) >= frameSize }

// seal compresses the collected blocks, and returns the frame and the ends of its blocks. Both are
// valid until the next call.
func (f *frames) seal() (packed []byte, ends []capture.BlockEnd) {
	f.packed = f.pack(f.packed[:0], f.blocks)
	ends = f.ends
	f.blocks, f.ends = f.blocks[:0], f.ends[:0]
	return f.packed, ends
}
