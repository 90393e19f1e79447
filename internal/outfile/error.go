package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// WriteError says what was tried in an error of writing to the file of a name; "" = no name.
func WriteError(name string, err error) error {
	switch {
	case name == "":
		return fmt.Errorf("write packets: %w", err)
	case errors.Is(err, unix.EPIPE):
		return xdp.Kind(unix.EPIPE, "%s: its reader has gone away", name)
	}
	return fmt.Errorf("write packets to %s: %w", name, cause(err))
}

// IsFull tells whether an error means that there is no room for more: on the disk, within the
// user's quota, or below the limit of a file's size.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// cause takes the path out of an error, for a text that has it already.
func cause(err error) error {
	if path := new(os.PathError); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// explainOpen says why a file cannot be opened, and what to do.
func explainOpen(path string, err error) error {
	if errors.Is(err, unix.EACCES) && isProtected(path) {
		return fmt.Errorf("%w: it belongs to another user, in a directory where everybody may make files, "+
			"and the kernel protects such files (sysctl fs.protected_regular, fs.protected_fifos): choose another file", err)
	}
	if errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("%w: it goes by a symbolic link, which may be anybody's: name the file where it is", err)
	}
	if IsFull(err) {
		return fmt.Errorf("%w: make room there, or choose another directory", err)
	}
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: choose another directory", err)
	}
	return fmt.Errorf("%w: choose a file that this user can write", err)
}

// isProtected tells whether the file is one that fs.protected_regular and fs.protected_fifos are
// for: it belongs neither to this user nor to the owner of its directory, which is sticky and which
// others may write to.
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

// userID is the user by whom the kernel judges what this thread opens.
func userID() int {
	id, _ := unix.SetfsuidRetUid(-1) // is no id, and so changes nothing
	return id
}

// danglingLink tells whether the path is a symbolic link to a file that does not exist, and to
// which.
func danglingLink(path string) (target string, dangles bool) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", false
	}
	_, err = os.Stat(path)
	return target, errors.Is(err, os.ErrNotExist)
}
