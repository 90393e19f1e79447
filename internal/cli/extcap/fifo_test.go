package extcap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// The wait for Wireshark to open the fifo ends with the capture, and creates no file.
func TestExtcapNoReader(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := (&Options{Fifo: path}).OpenFifo(ctx, file.Options{}, new(frame.Sandbox))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-ended; !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v", err)
	}
	if _, err := (&Options{Fifo: path + "2"}).OpenFifo(t.Context(), file.Options{}, new(frame.Sandbox)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a fifo that is not there: %v", err)
	}
}
