package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A cgroup bounds the memory of the processes in it. Its directory is removed with the test, after
// its processes have ended.
type cgroup struct {
	directory string
	limit     string // the file with the bound
	most      string // the file with the most that was taken
}

// memoryCgroup makes a cgroup with so many bytes of memory, of version 1 where the machine has
// memory in that one.
func memoryCgroup(t *testing.T, bytes uint64) cgroup {
	t.Helper()
	testnet.RequireRoot(t)
	c := cgroup{limit: "memory.limit_in_bytes", most: "memory.max_usage_in_bytes"}
	root := "/sys/fs/cgroup/memory"
	if _, err := os.Stat(filepath.Join(root, c.limit)); err != nil {
		c = cgroup{limit: "memory.max", most: "memory.peak"}
		root = "/sys/fs/cgroup"
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
			root = t.TempDir()
			if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.directory, err = os.MkdirTemp(root, "xdpcap"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testnet.WaitFor(t, "the cgroup's processes to be gone", func() bool { return unix.Rmdir(c.directory) == nil })
	})
	if err := os.WriteFile(filepath.Join(c.directory, c.limit), strconv.AppendUint(nil, bytes, 10), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// mostTaken is how many bytes the cgroup has had at most, 0 where the kernel does not say.
func (c cgroup) mostTaken() uint64 {
	text, _ := os.ReadFile(filepath.Join(c.directory, c.most))
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
