package systest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Cgroup limits the processes in it. Its directory is removed with the test, after its processes
// have ended.
type Cgroup struct {
	Directory string
	version   int
}

// NewCgroup creates a cgroup with a controller, in cgroup v1 if the machine has the controller
// there.
func NewCgroup(t *testing.T, controller string) Cgroup {
	t.Helper()
	testnet.RequireRoot(t)
	version, root := 1, "/sys/fs/cgroup/"+controller
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		version, root = 2, "/sys/fs/cgroup"
		if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
			root = t.TempDir()
			testnet.MustMount(t, "cgroup2", root, 0, "")
		}
		testnet.Must(t, os.WriteFile(root+"/cgroup.subtree_control", []byte("+"+controller), 0))
	}
	directory, err := os.MkdirTemp(root, "xdpcap")
	testnet.Must(t, err)
	t.Cleanup(func() {
		testnet.WaitFor(t, "the cgroup's processes to be gone", func() bool { return unix.Rmdir(directory) == nil })
	})
	return Cgroup{directory, version}
}

// Set writes a number to a file of the cgroup.
func (c Cgroup) Set(t *testing.T, file string, n uint64) {
	t.Helper()
	testnet.Must(t, os.WriteFile(filepath.Join(c.Directory, file), strconv.AppendUint(nil, n, 10), 0))
}

// MemoryCgroup creates a cgroup with this many bytes of memory.
func MemoryCgroup(t *testing.T, bytes uint64) Cgroup {
	t.Helper()
	c := NewCgroup(t, "memory")
	if c.version == 1 {
		c.Set(t, "memory.limit_in_bytes", bytes)
	} else {
		c.Set(t, "memory.max", bytes)
	}
	return c
}

// PeakMemory returns the maximum memory that the cgroup has used, in bytes; 0 if the kernel does
// not report it.
func (c Cgroup) PeakMemory() uint64 {
	file := "memory.peak"
	if c.version == 1 {
		file = "memory.max_usage_in_bytes"
	}
	text, _ := os.ReadFile(filepath.Join(c.Directory, file))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
