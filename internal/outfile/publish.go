package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Partial stands behind the path of a file that gets its own one when it is finished.
const Partial = ".partial"

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
		return nameTaken(path)
	case !at.Mode().IsRegular():
		return fmt.Errorf("open %s: it is not a regular file, which one that is finished could replace: choose another name", path)
	}
	return nil
}

func nameTaken(path string) error {
	return xdp.Kind(ErrNameTaken, "open %s: there is a file of this name already: choose another name", path)
}

func notRegular(path string) error {
	return fmt.Errorf("open %s: it is not a regular file: choose another name", path)
}

// IsFree tells whether a path is that of a regular file to which no File writes, in this process or
// another one. It follows no symbolic link. Where that cannot be found out, it is an error.
func IsFree(path string) (bool, error) {
	inUse, err := lookForLock(path)
	return !inUse && err == nil, err
}

// lookForLock tells whether somebody holds the lock of a regular file.
func lookForLock(path string) (held bool, err error) {
	at, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	if !at.Mode().IsRegular() {
		return false, unix.EINVAL
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	return errors.Is(err, unix.EWOULDBLOCK), nil // a file system without locks has none that is held
}
