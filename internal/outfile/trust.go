package outfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ErrUntrusted is the kind of error for a file that the kernel would open but a Trust rejects.
var ErrUntrusted = errors.New("the file is not trusted")

// A Trust says which files a process may write to if it has more rights than the user for whom it
// writes. The zero value trusts all files.
type Trust struct {
	// Owners are the ids of users who may own an existing regular file or FIFO; nil = anybody.
	Owners []int

	// NoLinks rejects a path with a symbolic link in it, and a regular file with several hard
	// links, so that nobody can substitute another file.
	NoLinks bool
}

// open opens a file, or creates it with permissions for its owner only. With unix.O_NONBLOCK among
// the flags, a write to a FIFO that nobody reads can be abandoned.
func (t *Trust) open(path string, flags int) (*os.File, error) {
	if !t.NoLinks {
		return os.OpenFile(path, flags, 0o600)
	}
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&os.O_CREATE != 0 {
		how.Mode = 0o600
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, how)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, how)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenPipe opens the writing end of an existing FIFO, without waiting for its reader.
func (t *Trust) OpenPipe(path string) (*os.File, error) {
	f, err := t.open(path, os.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if err := t.check(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check rejects an existing file that is not trusted.
func (t *Trust) check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", f.Name(), cause(err))
	}
	is, regular := info.Sys().(*syscall.Stat_t), info.Mode().IsRegular()
	switch {
	case !regular && info.Mode().Type() != os.ModeNamedPipe:
	case t.Owners != nil && !slices.Contains(t.Owners, int(is.Uid)):
		return xdp.Kind(ErrUntrusted, "open %s: it belongs to another user, with id %d, who can read what is written to it: "+
			"remove it, or choose another file", f.Name(), is.Uid)
	case t.NoLinks && regular && is.Nlink > 1:
		return xdp.Kind(ErrUntrusted, "open %s: it has a second name (hard link), so it may be somebody else's file: "+
			"remove it, or choose another file", f.Name())
	}
	return nil
}
