package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only a regular file of a reasonable size has settings: a device would be read until the memory is
// full, and a fifo waited for. /dev/null has none, by whichever name.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	null, pipe, large := filepath.Join(dir, "null"), filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	err := errors.Join(os.Symlink(os.DevNull, null), unix.Mkfifo(pipe, 0o600), os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{os.DevNull, "<nil>"},
		{null, "<nil>"},
		{"/dev/zero", "settings: /dev/zero is no regular file: write them into one"},
		{pipe, "settings: " + pipe + " is no regular file: write them into one"},
		{dir, "settings: " + dir + " is no regular file: write them into one"},
		{large, "settings: " + large + " has more than 1048576 bytes: it is no file of settings"},
	} {
		t.Setenv(SettingsVariable, test.path)
		if all, _, err := new(settingsFiles).Read(nil); len(all) > 0 || fmt.Sprint(err) != test.want {
			t.Errorf("%s: %v, %v", test.path, all, err)
		}
	}
}
