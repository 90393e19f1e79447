package outfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TryDirectory makes a file in a directory, gives it another name there and removes it, and so
// finds out whether that can be done with other files later.
func TryDirectory(directory string) error {
	f, err := os.CreateTemp(directory, ".xdpcap-")
	if err != nil {
		return fmt.Errorf("make files in %s: %w", directory, cause(err))
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

// TryFile finds out whether Open will open a regular file at a path later, which is perhaps there:
// with Atomic, whether it can be replaced. It is left as it is.
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
		// The kernel looks at all that forbids the removal of a name before it finds that a file is
		// no directory, which alone can be removed by this call.
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
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0)
	if err != nil {
		return explainOpen(path, err)
	}
	return errors.Join(o.Trust.check(f), f.Close())
}
