package anonymize

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadKey(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte{0xa5, 3}, 16)
	raw[7] = '\n'
	write := func(text []byte, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digits := hex.EncodeToString(raw)
	for _, text := range [][]byte{raw, []byte(digits), []byte(strings.ToUpper(digits) + "\n"), []byte(digits + "\r\n")} {
		key, err := ReadKey(write(text, 0o600))
		if err != nil || !bytes.Equal(key[:], raw) {
			t.Errorf("%q: %v, %v", text, key, err)
		}
	}
	for _, text := range []string{"", digits[:63], digits + "0", digits[:62] + "xy", string(raw[:31]), string(raw) + "x"} {
		if _, err := ReadKey(write([]byte(text), 0o600)); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("%q: %v", text, err)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if _, err := ReadKey(write(raw, mode)); !errors.Is(err, ErrShared) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(fifo); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a FIFO: %v", err)
	}
	if one, other := Key(raw), Key(bytes.Repeat([]byte{1}, 32)); one.Fingerprint() == other.Fingerprint() || len(one.Fingerprint()) != 16 {
		t.Errorf("fingerprints %s and %s", one.Fingerprint(), other.Fingerprint())
	}
}
