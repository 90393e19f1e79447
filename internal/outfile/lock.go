package outfile

import (
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks the file for this process. It returns an error if another process has locked it, or
// writes to rival, because one of the two files will replace the other. On a file system without
// locks it returns nil.
//
// It is a write lock, which requires write access to the file. With a read lock, or with flock(2),
// a user who may only read the file could keep others from writing to it. If another process holds
// a read lock, this file cannot be locked; Check then detects a second process that writes to it.
func (f *File) lock(rival string) error {
	err := control(f.File, func(fd int) error { return setLock(fd, unix.F_WRLCK) })
	if held, _ := isLocked(f.File); err != nil && held {
		return fmt.Errorf("lock %s: another program is writing to it: choose another file", f.name)
	}
	// The second process finds the lock of the first, because both lock their own file before they
	// check the other's.
	if inUse, _ := isWritten(rival, f.mayRival); inUse {
		return fmt.Errorf("lock %s: another program is writing to %s: choose another file", f.name, rival)
	}
	return nil
}

// mayRival reports whether a capture like this one may write a file of this owner. Other users may
// put a file with a lock at the path, in a directory in which all users can create files.
func (f *File) mayRival(owner uint32) bool {
	info, err := f.Stat()
	return err != nil || slices.Contains([]uint32{0, uint32(userID()), info.Sys().(*syscall.Stat_t).Uid}, owner)
}

// unlock releases the lock. Closing the file is not enough: a child process that was just forked
// has a copy of the descriptor until it executes its program, and keeps the lock that long.
func (f *File) unlock() {
	control(f.File, func(fd int) error { return setLock(fd, unix.F_UNLCK) })
}

// wholeFile is a lock of this kind that belongs to an open file, not to a process.
func wholeFile(kind int16) *unix.Flock_t { return &unix.Flock_t{Type: kind, Whence: io.SeekStart} }

func setLock(fd int, kind int16) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, wholeFile(kind))
}

// isLocked reports whether another holder has a lock for writing on an open file.
func isLocked(f *os.File) (held bool, err error) {
	lock := wholeFile(unix.F_RDLCK) // compatible with read locks
	err = control(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, lock) })
	return err == nil && lock.Type != unix.F_UNLCK, err
}

// IsFree reports whether no File, in this process or another one, writes to the regular file at a
// path. It does not follow a symbolic link. If it cannot determine that, it returns an error.
func IsFree(path string) (bool, error) {
	inUse, err := isWritten(path, func(uint32) bool { return true })
	return !inUse && err == nil, err
}

// isWritten reports whether the lock of a regular file is held. Files whose owner does not count
// are skipped.
func isWritten(path string, counts func(owner uint32) bool) (held bool, err error) {
	f, err := openRegular(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !counts(info.Sys().(*syscall.Stat_t).Uid) {
		return false, err
	}
	held, _ = isLocked(f) // on a file system without locks no lock is held
	return held, nil
}
