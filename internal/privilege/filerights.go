package privilege

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// SecureExecution reports whether the kernel has given this process more rights than its parent
// has, by capabilities or a set-user-ID bit of its file: AT_SECURE of getauxval(3).
var SecureExecution = sync.OnceValue(func() bool {
	const secure = 23 // AT_SECURE
	vector, err := unix.Auxv()
	if err != nil {
		return unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid()
	}
	return slices.ContainsFunc(vector, func(pair [2]uintptr) bool { return pair[0] == secure && pair[1] != 0 })
})

// fileRights are the capabilities by which a process opens files that its user may not open.
var fileRights = []cap.Value{cap.DAC_OVERRIDE, cap.DAC_READ_SEARCH, cap.FOWNER}

// SetFileRightsAside makes this process open files with only its caller's rights, if it has more by
// the capabilities of its binary: otherwise the caller could name any file of root and read it.
// [WithFileRights] uses those capabilities. SetFileRightsAside is called once, before the process
// accesses any path from the caller.
func SetFileRightsAside() error {
	if !SecureExecution() {
		return nil
	}
	all := cap.GetProc()
	for _, c := range fileRights {
		if err := all.SetFlag(cap.Effective, false, c); err != nil {
			return err
		}
	}
	if err := all.SetProc(); err != nil {
		return fmt.Errorf("set aside the capabilities over files: %w", err)
	}
	return nil
}

// WithFileRights calls do with the capabilities that SetFileRightsAside has set aside. It is for
// files whose paths the caller does not choose. do runs on a thread of its own, and must start no
// goroutine that opens files. WithFileRights returns do's error, or an error if the kernel refuses
// to change the thread's capabilities.
func WithFileRights(do func() error) error {
	if !SecureExecution() {
		return do()
	}
	return onThread(func() (restore func() error, err error) {
		own, err := ownCapabilities()
		if err != nil {
			return func() error { return nil }, err
		}
		more := *own
		for _, c := range fileRights {
			more[c/32].Effective |= own[c/32].Permitted & (1 << (c % 32))
		}
		return own.set, more.set()
	}, do)
}
