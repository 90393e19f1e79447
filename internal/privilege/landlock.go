package privilege

import (
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// writing is what Landlock restricts. A kernel whose Landlock does not know all of it restricts the
// rest: Linux 6.1 does not restrict truncate(2).
const writing landlock.AccessFSSet = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
	ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
	ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym

// LandlockABI is which version of Landlock's interface the kernel has; 0 = none, or it is switched
// off.
func LandlockABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// confine lets the process write only to these directories and files, and to /dev/null, which
// programs that it starts have as their standard input and output.
func confine(writable []string) error {
	rules := []landlock.Rule{landlock.RWFiles(os.DevNull).IgnoreIfMissing()}
	for _, path := range writable {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			rules = append(rules, landlock.RWDirs(path).WithRefer())
		} else {
			rules = append(rules, landlock.RWFiles(path))
		}
	}
	return landlock.MustConfig(writing).BestEffort().RestrictPaths(rules...)
}
