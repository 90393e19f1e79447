package xdp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WithOwner names the program. If it belongs to another xdpcap process, it names that, too:
// `sample_xdp (id 5) of process 17 (xdpcap -i eth0)`.
func (p Program) WithOwner() string {
	if owner := p.Owner(); owner != "" {
		return p.String() + " of " + owner
	}
	return p.String()
}

// Owner finds the other xdpcap process that has attached a program: `process 17 (xdpcap -i eth0)`.
// It returns "" for other programs. It also does if this process may not inspect the owner
// (CAP_SYS_PTRACE), or cannot see it in its PID namespace.
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

// isXdpcap tells whether a process, given as its directory in /proc, is named xdpcap or runs the
// same binary as this one. It limits the search of descriptors to a few processes.
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

// holds tells whether a process has a descriptor whose fdinfo has this line. Programs and their
// links show the program's id there.
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
