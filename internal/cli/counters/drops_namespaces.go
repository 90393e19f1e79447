package counters

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// namespaces are the network namespaces that a table mentions, by their inodes, in the order of
// their numbers there.
type namespaces []uint32

// number returns the number of a namespace in the table, from 1 on.
func (n *namespaces) number(inode uint32) int {
	i := slices.Index(*n, inode)
	if i < 0 {
		*n, i = append(*n, inode), len(*n)
	}
	return i + 1
}

// write says which namespaces the numbers are, with the names of pods, or those that ip-netns and
// Docker give them.
func (n namespaces) write(w io.Writer, pods map[uint32]string) {
	names := make(map[uint32]string)
	for _, directory := range slices.Backward(frame.NamespaceFiles) { // Docker's may have another one, too
		files, _ := filepath.Glob(directory + "/*") // a bad pattern is the only error
		for _, file := range files {
			var info unix.Stat_t
			if unix.Stat(file, &info) == nil {
				names[uint32(info.Ino)] = ": " + file
			}
		}
	}
	for inode, pod := range pods {
		names[inode] = ": pod " + message.Escape(pod)
	}
	for i, inode := range n {
		fmt.Fprintf(w, "@%d is network namespace %d%s\n", i+1, inode, names[inode])
	}
}
