package capture

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// Files are numbered before the suffix.
func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"a": "a-1", "a.pcapng": "a-1.pcapng", "a.b.pcap": "a-1.b.pcap", ".hidden": ".hidden-1"} {
		if got := outputs.FileNames(filepath.Join(dir, name), 0)(); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// --ring takes memory, a time, or both.
func TestRing(t *testing.T) {
	for text, want := range map[string]recorderOptions{
		"1M": {size: frame.Size{Bytes: 1 << 20, Unit: 1}}, "10s": {size: frame.Size{Bytes: 256 << 20, Unit: 1}, ahead: 10 * time.Second},
		"500ms,2G": {size: frame.Size{Bytes: 2 << 30, Unit: 1}, ahead: 500 * time.Millisecond}, "1m30s,1048576": {size: frame.Size{Bytes: 1 << 20, Unit: 1}, ahead: 90 * time.Second},
		"": {}, "s": {}, "10s,": {}, "1M,10s": {}, "1M,": {}, "10x": {}, "10s,5s": {}, "-1s": {},
	} {
		var got recorderOptions
		err := (*ringFlag)(&got).Set(text)
		if (err == nil) != (want.size.Bytes > 0) || got.size != want.size || got.ahead != want.ahead {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
