package machine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Process is a running program.
type Process struct {
	Name   string // "nginx"
	PID    int    // 0 = unknown
	Cgroup string // of the hierarchy with all controllers (version 2): "/system.slice/nginx.service"
}

// String returns "nginx[123]", or "" for an unknown process.
func (p Process) String() string {
	if p.PID == 0 {
		return ""
	}
	return fmt.Sprintf("%s[%d]", p.Name, p.PID)
}

// SocketOwners returns the process of each socket, by the inodes of the sockets. If several have it
// open, it is the first of them. Only processes of the same user are found, except with
// CAP_SYS_PTRACE.
func SocketOwners(inodes []uint32) map[uint32]Process {
	owners, missing := make(map[uint32]Process), make(map[string]uint32)
	for _, inode := range inodes {
		missing[fmt.Sprintf("socket:[%d]", inode)] = inode
	}
	for _, pid := range processes() {
		if len(missing) == 0 {
			break
		}
		directory := fmt.Sprintf("/proc/%d", pid)
		files, err := os.ReadDir(directory + "/fd")
		if err != nil {
			continue // it has ended, or is another user's
		}
		for _, f := range files {
			target, _ := os.Readlink(directory + "/fd/" + f.Name())
			inode, ok := missing[target]
			if !ok {
				continue
			}
			if name, err := os.ReadFile(directory + "/comm"); err == nil {
				owners[inode] = Process{strings.TrimSuffix(string(name), "\n"), pid, memberships(directory+"/cgroup", "")[2]}
				delete(missing, target)
			}
		}
	}
	return owners
}

// processes returns the ids of all processes, the lowest first.
func processes() (ids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
