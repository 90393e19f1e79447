package capfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/xdpcap/xdpcap/internal/message"
)

// decompress inserts a decompressor between the input and the window, if the input is compressed.
func (f *File) decompress(memory *Memory) (err error) {
	magic, _ := f.in.peek(4)
	var out io.Reader
	switch {
	case isGzip(magic):
		var d *gzip.Reader
		in := bufio.NewReader(f.in)
		if d, err = gzip.NewReader(in); err == nil {
			out, f.decode = &gzipMembers{d, in}, d
		}
	case isZstd(magic):
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
		return f.endError(err, len(magic))
	case err != nil:
		return fmt.Errorf("decompress %s: %w", f.Name, err)
	}
	f.in = &window{in: out}
	return nil
}

var gzipMagic = []byte{0x1f, 0x8b}

func isGzip(start []byte) bool { return bytes.HasPrefix(start, gzipMagic) }

// isZstd reports whether four bytes begin a frame of zstd, or a skippable one (RFC 8878, section
// 3.1).
func isZstd(start []byte) bool {
	if len(start) != 4 {
		return false
	}
	magic := binary.LittleEndian.Uint32(start)
	return magic == 0xfd2fb528 || magic&^0xf == 0x184d2a50
}

// gzipMembers reads the members of a gzip file, one after the other.
type gzipMembers struct {
	*gzip.Reader
	in *bufio.Reader
}

// Read looks for the next member itself, because package gzip would report other bytes after the
// last member as a truncated one.
func (m *gzipMembers) Read(b []byte) (int, error) {
	for {
		m.Multistream(false)
		n, err := m.Reader.Read(b)
		switch {
		case !errors.Is(err, io.EOF):
			return n, err
		case n > 0:
			return n, nil // the next call finds the next member or the end
		}
		next, err := m.in.Peek(len(gzipMagic))
		switch {
		case len(next) == 0:
			return 0, err
		case !bytes.HasPrefix(gzipMagic, next):
			return 0, message.Errorf(errDamaged, "after the compressed data it goes on with bytes that are not gzip's: % x", next)
		}
		if err := m.Reset(m.in); err != nil {
			return 0, cutOff(err)
		}
	}
}

// cutOff turns the end of an input into an unexpected one.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
