package privilege

import (
	"sync"

	"golang.org/x/sys/unix"
)

// SecureExecution reports whether the kernel has given this process more rights than its parent
// has, by capabilities or a set-user-ID bit of its file: AT_SECURE of getauxval(3).
var SecureExecution = sync.OnceValue(func() bool {
	const secure = 23 // AT_SECURE
	vector, err := unix.Auxv()
	if err != nil {
		return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
	}
	for _, pair := range vector {
		if pair[0] == secure {
			return pair[1] != 0
		}
	}
	return false
})
