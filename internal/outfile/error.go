package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// WriteError wraps an error of writing to the file with this name; "" = no name.
func WriteError(name string, err error) error {
	switch {
	case name == "":
		return fmt.Errorf("write packets: %w", err)
	case errors.Is(err, unix.EPIPE):
		return message.Errorf(unix.EPIPE, "%s: its reader has gone away", name)
	}
	return fmt.Errorf("write packets to %s: %w", name, cause(err))
}

// IsFull reports whether an error means that the disk is full, or that the user's quota or the
// limit of a file's size is reached.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// cause removes the path from an error, for a text that already has it.
func cause(err error) error {
	if path := new(os.PathError); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// explainOpen adds the reason why a file cannot be opened, and a remedy.
func explainOpen(path string, err error) error {
	remedy := "choose a file that this user can write"
	switch {
	case errors.Is(err, unix.ELOOP):
		return err // its text names the link, and the remedy
	case errors.Is(err, unix.EACCES) && isProtected(path):
		remedy = "it belongs to another user, in a directory where everybody can create files, " +
			"and the kernel protects such files (sysctl fs.protected_regular, fs.protected_fifos): choose another file"
	case IsFull(err):
		remedy = "make room there, or choose another directory"
	case errors.Is(err, unix.EROFS):
		remedy = "choose another directory"
	case errors.Is(err, unix.ENOENT):
		remedy = "create its directory first, or choose another"
	case errors.Is(err, unix.EISDIR):
		remedy = "name a file in it"
	}
	return fmt.Errorf("%w: %s", err, remedy)
}

// isProtected reports whether fs.protected_regular or fs.protected_fifos applies to the file: its
// directory is sticky and writable by others, and the file belongs neither to this user nor to the
// directory's owner.
func isProtected(path string) bool {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	var file, dir unix.Stat_t
	if unix.Stat(path, &file) != nil || unix.Stat(filepath.Dir(path), &dir) != nil {
		return false
	}
	return dir.Mode&unix.S_ISVTX != 0 && dir.Mode&(unix.S_IWOTH|unix.S_IWGRP) != 0 &&
		file.Uid != dir.Uid && int(file.Uid) != userID()
}

// userID returns the user whose rights the kernel checks when this thread opens a file. If a
// seccomp filter refuses setfsuid, no thread can have changed it.
func userID() int {
	id, err := unix.SetfsuidRetUid(-1) // -1 is not an id, so no id changes
	if err != nil {
		return unix.Geteuid()
	}
	return id
}

// danglingLink reports whether the path is a symbolic link to a file that does not exist, and
// returns that file.
func danglingLink(path string) (target string, dangles bool) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", false
	}
	_, err = os.Stat(path)
	return target, errors.Is(err, os.ErrNotExist)
}
