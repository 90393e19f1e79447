package outfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TryDirectory checks whether files can be created, renamed and removed in a directory, by doing so
// with a temporary file. With Trust.NoLinks it rejects a path with a symbolic link that is not
// root's.
func TryDirectory(directory string, t Trust) error {
	at, err := t.open(directory, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("create files in %s: %w", directory, cause(err))
	}
	at.Close()
	f, err := os.CreateTemp(directory, ".xdpcap-")
	if err != nil {
		return fmt.Errorf("create files in %s: %w", directory, cause(err))
	}
	defer f.Close()
	name, other := f.Name(), f.Name()+".partial"
	if err := unix.Rename(name, other); err != nil {
		os.Remove(name)
		return fmt.Errorf("rename files in %s: %w", directory, err)
	}
	if err := unix.Unlink(other); err != nil {
		return fmt.Errorf("remove files from %s, such as %s: %w", directory, other, err)
	}
	return nil
}

// TryFile checks whether Open will later be able to open a regular file at a path or, with Atomic,
// to replace it. The file need not exist. An existing file stays unchanged.
func TryFile(path string, o Options) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case o.Atomic:
		if err := checkReplaceable(path, o.New); err != nil {
			return err
		}
		// With this flag the kernel removes only directories, so the file stays. ENOTDIR means that
		// all other checks of the removal have succeeded, which come before.
		if err := unix.Unlinkat(unix.AT_FDCWD, path, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("replace %s: %w", path, err)
		}
		return nil
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return notRegular(path)
	}
	if o.New {
		return nameTaken(path)
	}
	f, err := o.Trust.open(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK)
	if err != nil {
		return explainOpen(path, err)
	}
	return errors.Join(o.Trust.check(f), f.Close())
}
