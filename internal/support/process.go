package support

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// CheckProcess returns nil, or an error that says what this process lacks to load, attach and read
// XDP programs: capabilities, a file system, or open files. What else may be missing shows when it
// is tried. Everything that attaches programs calls it first.
func CheckProcess() error {
	if err := checkPrivileges(); err != nil {
		return err
	}
	if err := checkFileSystems(); err != nil {
		return err
	}
	return checkOpenFiles()
}

// checkFileSystems looks for the files that every load of a program needs.
func checkFileSystems() error {
	for _, fs := range []struct{ file, mount string }{
		{"/proc/self/mountinfo", "mount -t proc proc /proc"},
		{"/sys/devices/system/cpu/possible", "mount -t sysfs sysfs /sys"},
	} {
		if _, err := os.Stat(fs.file); err != nil {
			return fmt.Errorf("loading XDP programs takes %s: %w: %s", fs.file, errno(err), fs.mount)
		}
	}
	return nil
}

// openFiles is how many files a capture opens on two CPUs, for a moment, while it loads programs.
// Another CPU takes one more.
const openFiles = 30

// checkOpenFiles tries whether so many can be opened. It does not wait for the error of a load,
// because the library takes that for a feature that the kernel does not have.
func checkOpenFiles() error {
	need := openFiles - 2 + machine.CPUs()
	var opened []int
	defer func() {
		for _, fd := range opened {
			unix.Close(fd)
		}
	}()
	for len(opened) < need {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open %d files, as loading programs takes them: %w after %d", need, err, len(opened))
		}
		opened = append(opened, fd)
	}
	return nil
}
