package xdp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WithOwner names the program and, where it is that of another process of xdpcap, that process:
// `sample_xdp (id 5) of process 17 (xdpcap -i eth0)`.
func (p Program) WithOwner() string {
	if owner := p.Owner(); owner != "" {
		return p.String() + " of " + owner
	}
	return p.String()
}

// Owner finds the other process of xdpcap that has attached a program: `process 17 (xdpcap -i
// eth0)`. It returns "" for programs of others, and where this process may not look into that one,
// without CAP_SYS_PTRACE, or does not see it, because it is in another PID namespace.
func (p Program) Owner() string {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return ""
	}
	own := filepath.Join("/proc", strconv.Itoa(os.Getpid()))
	line := fmt.Appendf(nil, "\nprog_id:\t%d\n", p.ID)
	for _, dir := range processes {
		if dir == own || !isXdpcap(dir) || !holds(dir, line) {
			continue
		}
		words, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		command := strings.ReplaceAll(strings.TrimSuffix(string(words), "\x00"), "\x00", " ")
		return fmt.Sprintf("process %s (%s)", filepath.Base(dir), command)
	}
	return ""
}

// isXdpcap tells whether a process, by its directory in /proc, is called xdpcap, or runs what this
// one runs. So only a few processes have their descriptors looked at.
func isXdpcap(dir string) bool {
	if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil && string(name) == "xdpcap\n" {
		return true
	}
	theirs, err := os.Stat(filepath.Join(dir, "exe"))
	if err != nil {
		return false
	}
	own, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(own, theirs)
}

// holds tells whether a process has a descriptor of which the kernel shows this line: those of a
// program and of its link have the program's id.
func holds(dir string, line []byte) bool {
	shown, err := filepath.Glob(filepath.Join(dir, "fdinfo", "*"))
	if err != nil {
		return false
	}
	for _, path := range shown {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, line) {
			return true
		}
	}
	return false
}
