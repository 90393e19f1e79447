package jsonline

import (
	"bytes"
	"io"
)

// pipeLines is how many bytes of whole lines are written to a pipe at once: PIPE_BUF, up to which
// the kernel never mixes them with what another process writes. To write each line by itself would
// cost several times as much as to make it.
const pipeLines = 4096

// A PipeWriter writes whole lines to a pipe or the like, as many at once as nobody else's can get
// between. A longer line is written by itself.
type PipeWriter struct{ Out io.Writer }

// Write takes whole lines.
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
