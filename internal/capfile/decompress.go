package capfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decompress puts a decompressor between the input and the window, if the input is compressed.
func (f *File) decompress(memory *Memory) (err error) {
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
		// A concurrency of 1 decodes in this goroutine, because many files may be open at once.
		frames := &zstdFrames{in: f.in, name: f.Name, memory: memory}
		d, err = zstd.NewReader(frames, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
		if err == nil {
			out, f.decode = d, zstdFile{d, frames}
		}
	default:
		return nil
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return f.ends(err, len(magic))
	case err != nil:
		return fmt.Errorf("decompress %s: %w", f.Name, err)
	}
	f.in = &window{in: out}
	return nil
}
