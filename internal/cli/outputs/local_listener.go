package outputs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the most bytes of the path of a socket (unix(7)).
const maxSocketPath = 107

// lockPatience is the timeout for the lock of a directory, and for a connection to a socket in it.
// A process that makes a socket holds the lock for milliseconds. Another user who may read the
// directory could hold it forever to prevent sockets, so after this time the lock is omitted.
const lockPatience = time.Second

// A localListener is a socket in the file system, to which only its owner may connect. Close
// removes the socket.
type localListener struct {
	*net.UnixListener
	dir  *os.File
	name string      // in dir
	made unix.Stat_t // of the socket, when it was made
	once sync.Once   // the removal
}

// listenLocally makes a socket. It replaces only a socket without a listener. It locks the
// directory meanwhile, because otherwise two processes that find such a leftover could remove each
// other's new socket.
func listenLocally(path string) (_ *localListener, err error) {
	if path == "" || len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of a socket has 1 to %d bytes", maxSocketPath)
	}
	l := &localListener{name: filepath.Base(path)}
	if l.dir, err = os.Open(filepath.Dir(path)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.dir.Close()
		}
	}()
	if err := lockDirectory(l.dir); err != nil {
		return nil, err
	}
	defer unix.Flock(int(l.dir.Fd()), unix.LOCK_UN)
	if err := l.removeLeftover(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		// bind(2) makes the file with the mode that the socket has.
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l.UnixListener = listener.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	if l.made, err = l.stat(); err != nil {
		listener.Close()
		return nil, err
	}
	return l, nil
}

// lockDirectory locks a directory. If another process keeps the lock for longer than lockPatience,
// the directory is not locked, and there is no error.
func lockDirectory(dir *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case !errors.Is(err, unix.EWOULDBLOCK):
			return os.NewSyscallError("flock", err)
		case time.Now().After(deadline):
			return nil
		}
	}
}

// stat returns the status of the file that has the socket's name now. It follows no link.
func (l *localListener) stat() (info unix.Stat_t, err error) {
	err = unix.Fstatat(int(l.dir.Fd()), l.name, &info, unix.AT_SYMLINK_NOFOLLOW)
	return info, err
}

// removeLeftover removes a socket without a listener, and refuses any other file.
func (l *localListener) removeLeftover(path string) error {
	info, err := l.stat()
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case info.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return errors.New("there is something else than a socket: choose another name")
	}
	conn, err := net.DialTimeout("unix", path, lockPatience)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) { // it answers, or is busy
		return errors.New("another process listens there: choose another name, or end that one")
	}
	return unix.Unlinkat(int(l.dir.Fd()), l.name, 0)
}

// isOwn reports whether this is the socket that listenLocally has made.
func (l *localListener) isOwn(info *unix.Stat_t) bool {
	return info.Mode&unix.S_IFMT == unix.S_IFSOCK && info.Ino == l.made.Ino && info.Dev == l.made.Dev
}

// give gives the socket to a user. It changes the owner by a descriptor, because another user who
// may write in the directory can replace the socket by somebody's file at any time.
func (l *localListener) give(uid, gid int) error {
	fd, err := unix.Openat(int(l.dir.Fd()), l.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if !l.isOwn(&info) {
		return errors.New("another program has replaced the socket: choose another directory")
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

// Close closes the socket, and removes its file unless another file has its name now. If this
// process may not remove it, the next listener does.
func (l *localListener) Close() error {
	err := l.UnixListener.Close()
	l.once.Do(func() {
		if info, failed := l.stat(); failed == nil && l.isOwn(&info) {
			unix.Unlinkat(int(l.dir.Fd()), l.name, 0)
		}
		l.dir.Close()
	})
	return err
}
