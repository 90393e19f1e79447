package outfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// ReaderGone tells whether f is the writing end of a pipe that nobody will read from any more. It
// does not wait.
func ReaderGone(f *os.File) bool {
	gone := false
	control(f, func(fd int) error {
		// poll reports POLLERR without being asked for it.
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		return err
	})
	return gone
}

// control calls do with the file's descriptor, which stays open meanwhile. In contrast to Fd, it
// leaves the descriptor in the mode it is in.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = do(int(fd)) }); failed != nil {
		return failed
	}
	return err
}
