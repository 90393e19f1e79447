package outfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// ReaderGone reports whether f is the writing end of a pipe without a reader. It does not wait.
func ReaderGone(f *os.File) bool {
	gone := false
	control(f, func(fd int) error {
		// poll reports POLLERR even if it is not among the requested events.
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		return err
	})
	return gone
}

// pipeSize is the largest pipe that an unprivileged user may have by default.
const pipeSize = 1 << 20

// widen enlarges a pipe's buffer beyond the initial 64 KiB, so that writer and reader wait for each
// other less often. If the kernel refuses, the pipe keeps its size.
func widen(f *os.File) {
	control(f, func(fd int) error {
		size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
		if err == nil && size < pipeSize {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
		}
		return err
	})
}

// control calls do with the file's descriptor, which stays open meanwhile. Unlike Fd, it does not
// change the descriptor's blocking mode.
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
