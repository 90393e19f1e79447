package machine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// SocketOwners returns the process of each socket, by the inodes of the sockets: "nginx[123]". If
// several have it open, it is the first of them. Only processes of the same user are found, except
// with CAP_SYS_PTRACE.
func SocketOwners(inodes []uint32) map[uint32]string {
	owners, missing := make(map[uint32]string), make(map[string]uint32)
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
				owners[inode] = fmt.Sprintf("%s[%d]", strings.TrimSuffix(string(name), "\n"), pid)
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
