package outfile

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Removal is a regular file that is to be removed. It is open, so that Frees can detect whether
// another process has it open, too.
type Removal struct{ disk }

// OpenRemoval opens the file at a path, which must be regular and no symbolic link. If a File, in
// this process or another one, writes to it, it returns nil without an error.
func OpenRemoval(path string) (*Removal, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if held, _ := isLocked(f); held { // on a file system without locks no lock is held
		return nil, f.Close()
	}
	return &Removal{disk{f, path}}, nil
}

// maxExec is the maximum time for which Frees waits for processes that start.
const maxExec = 100 * time.Millisecond

// Frees reports whether the file's room becomes free once the file is closed here, given that this
// many of its names stay. It does not if another program has it open, or if it has more names than
// that. If the file system cannot report who has a file open, Frees assumes that it is not open
// elsewhere. A process that starts, such as a command of -z, holds this process's open files until
// its exec. No other process opens a finished file for writing, so Frees waits while the file is
// open for writing.
func (r *Removal) Frees(names uint64) bool {
	info, err := r.Stat()
	if err != nil || uint64(info.Sys().(*syscall.Stat_t).Nlink) > names {
		return false
	}
	for end := time.Now().Add(maxExec); !r.mayLease(unix.F_RDLCK) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return r.mayLease(unix.F_WRLCK)
}

// mayLease reports whether no other process has the file open, for a lease of the kind F_WRLCK, or
// open for writing, for F_RDLCK.
func (r *Removal) mayLease(kind int) bool {
	isOpen := false
	control(r.File, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
		if isOpen = errors.Is(err, unix.EAGAIN); err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		}
		return err
	})
	return !isOpen
}

// openRegular opens a regular file for reading.
func openRegular(path string) (*os.File, error) {
	at, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !at.Mode().IsRegular() {
		return nil, unix.EINVAL
	}
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}
