package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// errNotTrusted is the kind of error that somebody else could write to a file of settings.
var errNotTrusted = errors.New("somebody else could write to it")

// checkTrust returns an error where root would obey what somebody else has written. A user's own
// process may have any file.
func checkTrust(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() != 0 || !ok {
		return nil
	}
	switch {
	case stat.Uid != 0:
		return fmt.Errorf("settings: root does not obey %s, which belongs to user id %d: %w", path, stat.Uid, errNotTrusted)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("settings: root does not obey %s, whose mode is %#o: %w", path, info.Mode().Perm(), errNotTrusted)
	}
	return nil
}

func powerfulError(flag, from string) error {
	return fmt.Errorf("%s: --%s can be set on the command line and in a file in /etc alone", from, flag)
}

// isOfMachine reports whether a file is one that only who administers the machine can make.
func (f settingsFiles) isOfMachine(path string) bool {
	return path == f.Machine || strings.HasPrefix(filepath.Clean(path), "/etc/")
}
