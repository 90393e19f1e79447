package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// partial stands behind the path of a file that gets its own one when it is finished.
const partial = ".partial"

// Publish gives a file of Options.Atomic its path, in the place of what was there, unless New keeps
// that. It returns when the directory is on its disk. It does nothing with other files.
func (f *File) Publish() error {
	if f.final == "" {
		return nil
	}
	if err := checkReplaceable(f.final, f.options.New); err != nil {
		return err
	}
	if err := f.rename(); err != nil {
		return fmt.Errorf("rename %s to %s: %w: the packets are in %s", f.path, f.final, err, f.path)
	}
	f.path, f.final = f.final, ""
	if err := f.storeDirectory(); err != nil {
		return fmt.Errorf("write the directory of %s to its disk: %w: the file may be lost if the machine stops", f.path, cause(err))
	}
	return nil
}

// rename gives the file its path.
func (f *File) rename() error {
	if f.options.New {
		err := unix.Renameat2(unix.AT_FDCWD, f.path, unix.AT_FDCWD, f.final, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		// This file system has no such flag. That the path is free was checked a moment ago.
	}
	return unix.Rename(f.path, f.final)
}

// storeDirectory waits until the disk has the file's name. A directory that this user may not read
// cannot be opened for that, so its whole file system is waited for.
func (f *File) storeDirectory() error {
	dir, err := os.Open(filepath.Dir(f.path))
	if errors.Is(err, unix.EACCES) {
		return control(f.File, unix.Syncfs)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// checkReplaceable returns an error where a finished file could not have this path.
func checkReplaceable(path string, mustBeNew bool) error {
	at, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // what else is wrong with the path is found when the file is made
	case mustBeNew:
		return existsAlready(path)
	case !at.Mode().IsRegular():
		return fmt.Errorf("open %s: it is not a regular file, which one that is finished could replace: choose another name", path)
	}
	return nil
}

func existsAlready(path string) error {
	return xdp.Kind(os.ErrExist, "open %s: there is a file of this name already, which is not to be overwritten: choose another name", path)
}

func notRegular(path string) error {
	return fmt.Errorf("open %s: it is not a regular file: choose another name", path)
}

// InUse tells whether a File that is open, in this process or another one, has this path. What this
// user may not read is not in use as far as can be told.
func InUse(path string) bool {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	if at, err := os.Lstat(path); err != nil || !at.Mode().IsRegular() {
		return false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) }), unix.EWOULDBLOCK)
}
