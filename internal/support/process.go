package support

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// CheckProcess returns nil, or an error that names the requirement for loading, attaching and
// reading XDP programs that this process does not fulfil: capabilities, a file system, or open
// files. Other problems only show when a program is loaded. All code that attaches programs calls
// it first.
func CheckProcess() error {
	if err := checkPrivileges(); err != nil {
		return err
	}
	if err := checkFileSystems(); err != nil {
		return err
	}
	return checkOpenFiles()
}

// checkFileSystems checks for the files that every load of a program needs.
func checkFileSystems() error {
	for _, fs := range []struct{ file, mount string }{
		{"/proc/self/mountinfo", "mount -t proc proc /proc"},
		{"/sys/devices/system/cpu/possible", "mount -t sysfs sysfs /sys"},
	} {
		if _, err := os.Stat(fs.file); err != nil {
			return fmt.Errorf("loading XDP programs needs %s: %w: %s", fs.file, errno(err), fs.mount)
		}
	}
	return nil
}

// openFiles is the number of files that a capture on two CPUs briefly has open while it loads
// programs. Each further CPU adds one.
const openFiles = 30

// checkOpenFiles tries to open that many files. It does not wait for a load to fail, because the
// library would report that as a missing kernel feature.
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
			return fmt.Errorf("open %d files, which loading programs needs: %w after %d", need, err, len(opened))
		}
		opened = append(opened, fd)
	}
	return nil
}
