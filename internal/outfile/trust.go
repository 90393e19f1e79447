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

// ErrUntrusted is the kind of error of a file that the kernel would open, and a Trust refuses.
var ErrUntrusted = errors.New("the file is not trusted")

// A Trust says which files may be written to by a process that has more rights than the user for
// whom it writes. The zero value trusts all files.
type Trust struct {
	// Owners are the users, by their ids, to whom a regular file or a fifo that is there already
	// may belong; nil = anybody.
	Owners []int

	// NoLinks refuses a path with a symbolic link in it, and a regular file with a second name, so
	// that nobody can put another file in the place of the one that is meant.
	NoLinks bool
}

// open opens a file, or makes it, for its owner alone. With unix.O_NONBLOCK among the flags a write
// to a FIFO that nobody reads can be given up.
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

// OpenPipe opens the writing end of a fifo that is there, without waiting for its reader.
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

// check refuses a file that was there before and is not trusted.
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
		return xdp.Kind(ErrUntrusted, "open %s: it has a second name, so that it may be a file from elsewhere: "+
			"remove it, or choose another file", f.Name())
	}
	return nil
}
