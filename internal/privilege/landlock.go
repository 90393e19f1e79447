package privilege

import (
	"os"
	"sync"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The rights that Landlock restricts, and seriesRights. On a kernel whose Landlock lacks some of
// them, only the rest is restricted: Linux 6.1 lacks truncate(2) and networks, and 6.6 lacks
// scopes.
const (
	writing landlock.AccessFSSet = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym
	// seriesRights are granted in a directory, for a series of files.
	seriesRights landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSWriteFile |
		ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSRemoveFile
	reading landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSExecute

	networks landlock.AccessNetSet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	scopes   landlock.ScopedSet    = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
)

// LandlockABI is the version of the kernel's Landlock interface; 0 = there is no Landlock, or it is
// switched off. It is read only once, because a process inside its sandbox cannot read it.
var LandlockABI = sync.OnceValue(func() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
})

// confine restricts the process to the sandbox's files and networks. If it starts programs, only
// writing is restricted.
func (s *Sandbox) confine() error {
	LandlockABI() // remembers the version, which cannot be read in the sandbox
	var rules []landlock.Rule
	for _, path := range s.Writable {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		switch {
		case !info.IsDir():
			rules = append(rules, landlock.RWFiles(path))
		case s.Programs:
			rules = append(rules, landlock.RWDirs(path).WithRefer())
		default:
			rules = append(rules, landlock.PathAccess(seriesRights, path))
		}
	}
	for _, path := range s.Removable {
		rules = append(rules, landlock.PathAccess(ll.AccessFSRemoveFile, path))
	}
	if s.Programs {
		// os/exec opens /dev/null for programs without standard input or output.
		null := landlock.RWFiles(os.DevNull).IgnoreIfMissing()
		return landlock.MustConfig(writing).BestEffort().RestrictPaths(append(rules, null)...)
	}
	if len(s.Readable) > 0 {
		rules = append(rules, landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, s.Readable...).IgnoreIfMissing())
	}
	for _, port := range s.Connect {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	return landlock.MustConfig(writing|reading, networks, scopes).BestEffort().Restrict(rules...)
}
