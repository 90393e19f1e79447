package capfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the most memory in bytes that a zstd frame may ask for: as much as zstd(1)
// grants without being asked.
const maxZstdWindow = 128 << 20

// decompress puts what decompresses between the input and the window, if the input is compressed.
func (f *File) decompress() (err error) {
	magic, _ := f.in.peek(4)
	var out io.Reader
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		var d *gzip.Reader
		if d, err = gzip.NewReader(f.in); err == nil {
			out, f.decode = d, d
		}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(magic) == 4 && magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18}):
		var d *zstd.Decoder
		// One frame after the other in this goroutine: many files may be open at once.
		d, err = zstd.NewReader(f.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
		if err == nil {
			out, f.decode = d, d.IOReadCloser()
		}
	default:
		return nil
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return f.ends(err, len(magic))
	case err != nil:
		return fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	f.in = &window{in: out}
	return nil
}
