package capfile

import "io"

// windowSize is how many bytes of a file are in memory at first. A longer block makes it grow.
const windowSize = 128 << 10

// A window is the part of an input that is in memory. It grows only as bytes come in, so that a
// length in a damaged file costs no more memory than the file has bytes.
type window struct {
	in       io.Reader
	buf      []byte
	from, to int
	offset   int64        // of buf[from] in the input
	err      error        // of in, once there was one
	before   func() error // called before in is read, which may wait; nil = in never waits
}

// peek returns the next n bytes without going on, or as many as there are, if fewer, with the
// reason. They are valid until the next call of peek.
func (w *window) peek(n int) ([]byte, error) {
	if w.to-w.from >= n {
		return w.buf[w.from : w.from+n], nil
	}
	return w.wait(n)
}

// wait is peek where fewer bytes are in memory.
func (w *window) wait(n int) ([]byte, error) {
	for w.to-w.from < n && w.err == nil {
		w.fill(n)
	}
	if have := w.to - w.from; have < n {
		return w.buf[w.from:w.to], w.err
	}
	return w.buf[w.from : w.from+n], nil
}

// fill reads once.
func (w *window) fill(want int) {
	if w.from > 0 && len(w.buf)-w.from < want {
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	}
	if w.to == len(w.buf) {
		w.buf = append(w.buf, make([]byte, max(windowSize, len(w.buf)))...)
	}
	n, err := 0, error(nil)
	for tries := 0; n == 0 && err == nil && (tries < 100 || w.before != nil); tries++ {
		if w.before != nil {
			if err = w.before(); err != nil {
				break
			}
		}
		n, err = w.in.Read(w.buf[w.to:])
	}
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	w.to += n
	w.err = err
}

// has tells whether so many bytes can be peeked at without reading.
func (w *window) has(n int) bool { return w.to-w.from >= n }

// skip goes on by n bytes, which were peeked at.
func (w *window) skip(n int) {
	w.from += n
	w.offset += int64(n)
}

// Read lets what decompresses the input read from the window.
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
