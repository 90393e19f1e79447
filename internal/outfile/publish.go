package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// Partial is appended to the path of a file that gets its final path when it is finished.
const Partial = ".partial"

// Publish gives a file with Options.Atomic its final path. It replaces an existing file unless New
// forbids that. It returns when the directory is synced to disk. Other files are not changed.
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
	f.kernelPath = f.currentPath()
	if err := f.storeDirectory(); err != nil {
		return fmt.Errorf("sync the directory of %s to disk: %w: the file may be lost if the machine stops", f.path, cause(err))
	}
	return nil
}

func (f *File) rename() error {
	if f.options.New {
		err := unix.Renameat2(unix.AT_FDCWD, f.path, unix.AT_FDCWD, f.final, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		// This file system has no such flag. The path was checked to be free a moment ago.
	}
	return unix.Rename(f.path, f.final)
}

// storeDirectory waits until the file's name is on disk. A directory that this user may not read
// cannot be opened for that, so storeDirectory then waits for the whole file system.
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

// checkReplaceable returns an error if a finished file could not get this path.
func checkReplaceable(path string, mustBeNew bool) error {
	at, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // other problems with the path show when the file is created
	case mustBeNew:
		return nameTaken(path)
	case !at.Mode().IsRegular():
		return fmt.Errorf("open %s: it is not a regular file and cannot be replaced by one: choose another name", path)
	}
	return nil
}

func nameTaken(path string) error {
	return message.Errorf(ErrNameTaken, "open %s: a file of this name already exists: choose another name", path)
}

func notRegular(path string) error {
	return fmt.Errorf("open %s: it is not a regular file: choose another name", path)
}
