package lines

import (
	"bytes"
	"io"
)

// pipeLines is the maximum number of bytes in one write of whole lines to a pipe. It is PIPE_BUF:
// up to that size the kernel never mixes them with another process's writes. Writing each line by
// itself would cost several times as much as encoding it.
const pipeLines = 4096

// A PipeWriter writes whole lines to a pipe or the like, at most pipeLines bytes at once, so that
// no other process's lines get in between. A longer line is written by itself.
type PipeWriter struct{ Out io.Writer }

// Write writes b, which must be whole lines.
func (w PipeWriter) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		n := len(b)
		if n > pipeLines {
			n = bytes.LastIndexByte(b[:pipeLines], '\n') + 1
		}
		if n == 0 {
			n = bytes.IndexByte(b, '\n') + 1
		}
		n, err := w.Out.Write(b[:n])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}
