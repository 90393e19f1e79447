package outfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// errUntrusted is the kind of error for a file that the kernel would open but a Trust rejects.
var errUntrusted = errors.New("the file is not trusted")

// A Trust restricts the files to which a process writes that has more rights than the user for whom
// it writes. The zero value trusts all files.
type Trust struct {
	// Owners are the ids of users who may own an existing regular file or FIFO; nil = all users.
	Owners []int

	// NoLinks rejects a path with a symbolic link in it that is not root's, and a regular file with
	// several hard links, so that only root can substitute another file.
	NoLinks bool
}

// open opens a file, or creates it with permissions for its owner only. With unix.O_NONBLOCK among
// the flags, a write that waits for a FIFO's reader can be cancelled.
func (t *Trust) open(path string, flags int) (*os.File, error) {
	if !t.NoLinks {
		return os.OpenFile(path, flags, 0o600)
	}
	for at, tries := path, 0; ; tries++ {
		if isDescriptor(at) { // the target of root's link
			return os.OpenFile(at, flags, 0o600)
		}
		fd, err := openWithoutLinks(at, flags)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if !errors.Is(err, unix.ELOOP) || tries == maxLinks {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		if at, err = resolveLink(at); err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// maxLinks is the maximum number of symbolic links that the kernel follows in one path.
const maxLinks = 40

// openWithoutLinks opens a path in which no element is a symbolic link; otherwise the error is
// ELOOP.
func openWithoutLinks(path string, flags int) (fd int, err error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&os.O_CREATE != 0 {
		how.Mode = 0o600
	}
	for {
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, how); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// resolveLink replaces the first symbolic link of a path by its target.
func resolveLink(path string) (string, error) {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' || path[end-1] == '/' {
			continue // a name does not end here
		}
		target, err := readLink(path[:end])
		switch {
		case err != nil:
			return "", err
		case target == "":
			continue
		case target[0] != '/':
			target = path[:strings.LastIndexByte(path[:end], '/')+1] + target
		}
		return target + path[end:], nil
	}
	return path, nil // the link was removed meanwhile
}

// readLink reads the symbolic link at a path; "" = it is not a link. It returns an error of the
// kind ELOOP if another user than root may have put the link there: the link belongs to that user,
// or it has a second name, so that it may be a hard link to a link in a directory of root. It also
// rejects links of procfs, which lead to an open file whatever their text is.
func readLink(path string) (target string, err error) {
	fd, err := openWithoutLinks(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var link unix.Stat_t
	var disk unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &link), unix.Fstatfs(fd, &disk)); err != nil {
		return "", err
	}
	if link.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", nil
	}
	if link.Uid != 0 || link.Nlink > 1 || disk.Type == unix.PROC_SUPER_MAGIC {
		return "", message.Errorf(unix.ELOOP, "%s is a symbolic link that may not be root's own, and could lead to any file: "+
			"use the path without this link", path)
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

// IsOthers reports whether the file at a path belongs neither to one of the owners, nor to root,
// nor to this process's user. It does not follow a symbolic link there.
func IsOthers(path string, owners []int) bool {
	var at unix.Stat_t
	return unix.Lstat(path, &at) == nil && at.Uid != 0 && int(at.Uid) != userID() && !slices.Contains(owners, int(at.Uid))
}

// isDescriptor reports whether a path names a descriptor of this process.
func isDescriptor(path string) bool {
	return slices.ContainsFunc([]string{"/dev/fd/", "/dev/std", "/proc/self/fd/"}, func(directory string) bool {
		return strings.HasPrefix(path, directory)
	})
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
	stat, isRegular := info.Sys().(*syscall.Stat_t), info.Mode().IsRegular()
	switch {
	case info.Mode()&os.ModeDevice != 0:
		return t.checkDevice(f, info)
	case !isRegular && info.Mode().Type() != os.ModeNamedPipe:
	case t.Owners != nil && !slices.Contains(t.Owners, int(stat.Uid)):
		return message.Errorf(errUntrusted, "open %s: it belongs to another user, with id %d, who can read what is written to it: "+
			"remove it, or choose another file", f.Name(), stat.Uid)
	case t.NoLinks && isRegular && stat.Nlink > 1:
		return message.Errorf(errUntrusted, "open %s: it has a second name (hard link), so it may be somebody else's file: "+
			"remove it, or choose another file", f.Name())
	}
	return nil
}

// checkDevice rejects a device that was reached by a link of another user than root. Otherwise that
// user could lead this process to a device that only the process may open, such as its terminal.
func (t *Trust) checkDevice(f *os.File, info os.FileInfo) error {
	if t.Owners == nil || t.NoLinks {
		return nil
	}
	named, err := (&Trust{NoLinks: true}).open(f.Name(), unix.O_PATH)
	if err != nil {
		return err
	}
	defer named.Close()
	if at, err := named.Stat(); err != nil || !os.SameFile(info, at) {
		return message.Errorf(errUntrusted, "open %s: it was replaced meanwhile: choose another file", f.Name())
	}
	return nil
}
