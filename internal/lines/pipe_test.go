package lines

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Towards a pipe each write has whole lines, as many as PIPE_BUF holds; a longer line has its own.
func TestPipeWriter(t *testing.T) {
	t.Parallel()
	var writes writeSizes
	lines := append(bytes.Repeat(append(bytes.Repeat([]byte("a"), 999), '\n'), 9), bytes.Repeat([]byte("b"), 5000)...)
	lines = append(lines, '\n', 'c', '\n')
	if n, err := (PipeWriter{&writes}).Write(lines); n != len(lines) || err != nil {
		t.Fatal(n, err)
	}
	if diff := cmp.Diff(writeSizes{4000, 4000, 1000, 5001, 2}, writes); diff != "" {
		t.Error(diff)
	}
}

type writeSizes []int

func (w *writeSizes) Write(b []byte) (int, error) {
	*w = append(*w, len(b))
	return len(b), nil
}
