package attach

import (
	"io"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A recordingCloser notes that it was closed.
type recordingCloser struct {
	name   string
	closed *[]string
}

func (c recordingCloser) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

// Programs are detached in the order in which they were attached, and once.
func TestClose(t *testing.T) {
	t.Parallel()
	const loopback = 1
	watch, err := xdp.WatchHook(loopback)
	if err != nil {
		t.Fatal(err)
	}
	var closed []string
	a := &Attachment{watch: watch, links: []io.Closer{recordingCloser{"first", &closed}, recordingCloser{"second", &closed}}}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"first", "second"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	if err := (*Attachment)(nil).Close(); err != nil {
		t.Errorf("nothing attached: %v", err)
	}
}
