package cli

import (
	"path/filepath"
	"testing"
)

// Files are numbered before the suffix.
func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"a": "a-1", "a.pcapng": "a-1.pcapng", "a.b.pcap": "a-1.b.pcap", ".hidden": ".hidden-1"} {
		if got := fileNames(filepath.Join(dir, name), 0)(); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
