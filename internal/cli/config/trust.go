package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/xdpcap/xdpcap/internal/privilege"
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

// powerful are flags with which whoever sets them has the privileges of whoever starts xdpcap: they
// start a program, keep privileges, or say with which rights and where it works.
var powerful = []string{"no-sandbox", "postrotate-command", "relinquish-privileges", "netns", "pod"}

// outputs are flags by which packets get out. Where root was started by somebody else with sudo or
// the like, the environment may be that user's.
var outputs = []string{"write", "json", "serve", "listen"}

func isOfCaller(flag string) bool { return slices.Contains(outputs, flag) && privilege.Caller() != nil }

func isPowerful(flag string) bool { return slices.Contains(powerful, flag) }

func powerfulError(flag, from string) error {
	return fmt.Errorf("%s: --%s can be set on the command line and in a file in /etc alone", from, flag)
}

// isOfMachine tells whether a file is one that only who administers the machine can make.
func (f Files) isOfMachine(path string) bool {
	return path == f.Machine || strings.HasPrefix(filepath.Clean(path), "/etc/")
}
