package capfile

import (
	"errors"
	"io"
	"time"
)

// windowSize is the initial size of a window, in bytes. A longer block makes it grow.
const windowSize = 128 << 10

// A window is the part of an input that is in memory. It grows only as bytes come in, so that a
// length in a damaged file costs no more memory than the file has bytes.
type window struct {
	in       io.Reader
	buf      []byte
	from, to int          // the bytes in memory are buf[from:to]
	offset   int64        // offset of buf[from] in the input
	err      error        // the first error of in
	before   func() error // Options.BeforeRead; nil = reads of in do not block
	late     func() bool  // Options.Late
}

// errLate is the error of peek while an input is late. A later peek may succeed.
var errLate = errors.New("the input has nothing yet")

// latePause is how long a Merge waits if all its files are late.
const latePause = 10 * time.Millisecond

// peek returns the next n bytes and does not advance. If there are fewer, it returns these and the
// reason. They are valid until the next call of peek.
func (w *window) peek(n int) ([]byte, error) {
	if w.to-w.from >= n {
		return w.buf[w.from : w.from+n], nil
	}
	return w.wait(n)
}

// wait is the part of peek that reads the input.
func (w *window) wait(n int) ([]byte, error) {
	for w.to-w.from < n && w.err == nil {
		if w.fill(n) {
			return w.buf[w.from:w.to], errLate
		}
	}
	if have := w.to - w.from; have < n {
		return w.buf[w.from:w.to], w.err
	}
	return w.buf[w.from : w.from+n], nil
}

// fill reads once, into memory in which `want` bytes fit. It returns true if the input is late.
func (w *window) fill(want int) (late bool) {
	if w.from > 0 && len(w.buf)-w.from < want {
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	}
	if w.to == len(w.buf) {
		w.buf = append(w.buf, make([]byte, max(windowSize, len(w.buf)))...)
	}
	n, err := 0, error(nil)
	const mostEmpty = 100 // reads of 0 bytes in a row, as in package bufio
	for reads := 0; n == 0 && err == nil && (reads < mostEmpty || w.before != nil); reads++ {
		if w.before != nil {
			if err = w.before(); err != nil {
				break
			}
		}
		if n, err = w.in.Read(w.buf[w.to:]); n == 0 && err == nil && w.late != nil && w.late() {
			return true
		}
	}
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	w.to += n
	w.err = err
	return false
}

// pause waits for latePause, and then calls BeforeRead.
func (w *window) pause() error {
	time.Sleep(latePause)
	return w.before()
}

// has reports whether peek can return n bytes without reading the input.
func (w *window) has(n int) bool { return w.to-w.from >= n }

// skip advances by n bytes, which peek has returned.
func (w *window) skip(n int) {
	w.from += n
	w.offset += int64(n)
}

// Read reads from the window, for a decompressor.
func (w *window) Read(b []byte) (int, error) {
	if w.from == w.to && w.err == nil {
		w.fill(1)
	}
	n := copy(b, w.buf[w.from:w.to])
	w.skip(n)
	if n == 0 {
		return 0, w.err
	}
	return n, nil
}
