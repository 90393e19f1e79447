package capfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// withWindow returns a zstd file of a few bytes that requests a window of 1 << log bytes.
func withWindow(log int, data []byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log-10) << 3}
	header := uint32(len(data))<<3 | 1 // the last block, raw
	return append(append(b, byte(header), byte(header>>8), byte(header>>16)), data...)
}

// whole returns a frame that requests memory for its whole contents, which are truncated.
func whole(size uint32, data []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, size)
	header := uint32(len(data))<<3 | 1
	return append(append(b, byte(header), byte(header>>8), byte(header>>16)), data...)
}

// The windows of all files that are open together have a bound, and a file that is closed gives its
// window back.
func TestZstdMemory(t *testing.T) {
	t.Parallel()
	const log = 27
	data := withWindow(log, pcapngFile("a", 0, 1))
	var memory Memory
	var files []*File
	for range maxZstdWindows >> log {
		f, err := New(bytes.NewReader(data), "file", Options{Memory: &memory})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if _, err := New(bytes.NewReader(data), "file", Options{Memory: &memory}); !errors.Is(err, ErrMemory) {
		t.Errorf("a file too many: %v", err)
	}
	// Every frame counts, also after another one.
	later, err := New(bytes.NewReader(append(withWindow(10, pcapngFile("a", 0)), data...)), "file", Options{Memory: &memory})
	if err == nil {
		defer later.Close()
		_, err = read(t, later.Next)
	}
	if !errors.Is(err, ErrMemory) {
		t.Errorf("a second frame too many: %v", err)
	}
	for _, f := range files {
		if words, err := read(t, f.Next); err != io.EOF || len(words) != 5 {
			t.Errorf("%v, %v", words, err)
		}
		f.Close()
	}
	f, err := New(bytes.NewReader(data), "file", Options{Memory: &memory})
	if err != nil {
		t.Fatal("after the others were closed:", err)
	}
	f.Close()
	if later != nil {
		later.Close()
	}
	if used := memory.used.Load(); used != 0 {
		t.Errorf("%d bytes are held by nobody", used)
	}
}

// Where little memory is available, the windows have less than a GiB, and enough for zstd -19.
func TestZstdMemoryAvailable(t *testing.T) {
	t.Parallel()
	for available, want := range map[uint64]int64{0: 8 << 20, 100 << 20: 25 << 20, 64 << 30: 1 << 30, math.MaxUint64: 1 << 30} {
		m := NewMemory(available)
		if !m.reserve(want) || m.reserve(1) {
			t.Errorf("of %d bytes %d are taken, want %d", available, m.used.Load(), want)
		}
	}
	if m := new(Memory); !m.reserve(1<<30) || m.reserve(1) {
		t.Error("the zero value has another limit than a GiB")
	}
}

// The frames are followed through all kinds of blocks, without a change.
func TestZstdFrames(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 300<<10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for name, data := range map[string][]byte{
		"raw":        noise,
		"repeated":   make([]byte, 1<<20),
		"compressed": bytes.Repeat([]byte("what repeats is compressed; "), 10_000),
		"empty":      nil,
	} {
		for _, check := range []bool{true, false} {
			var b bytes.Buffer
			w, err := zstd.NewWriter(&b, zstd.WithEncoderCRC(check), zstd.WithWindowSize(1<<16))
			if err != nil {
				t.Fatal(err)
			}
			w.Write(data)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			skipped := binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 1000)
			skipped = append(skipped, make([]byte, 1000)...)
			for _, last := range [][]byte{withWindow(22, []byte("end")), whole(1<<22, []byte("end"))} {
				all := bytes.Join([][]byte{b.Bytes(), skipped, b.Bytes(), last}, nil)
				z := &zstdFrames{in: &window{in: bytes.NewReader(all)}, name: name, memory: new(Memory)}
				got, err := io.ReadAll(z)
				if err != nil || !bytes.Equal(got, all) || z.held != 1<<22 {
					t.Errorf("%s: %v, %d bytes of %d, %d held for the last frame", name, err, len(got), len(all), z.held)
				}
			}
		}
	}
}
