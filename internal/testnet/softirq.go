package testnet

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// WaitHandled waits until the kernel has handled everything that was sent before, at most Patience.
// Usually it does so before the system call that sends returns. On a busy machine a thread of each
// CPU does it, ksoftirqd, which sleeps when nothing is left. It waits for nothing where this
// process cannot see these threads.
func WaitHandled(tb TB) {
	tb.Helper()
	for _, thread := range softirqThreads() {
		WaitFor(tb, "the kernel to handle what was sent", func() bool {
			stat, err := os.ReadFile(filepath.Join(thread, "stat"))
			if err != nil {
				tb.Fatalf("look at ksoftirqd: %v", err)
			}
			// The state comes after the name.
			return !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" R"))
		})
	}
}

// softirqThreads are the directories below /proc of the threads ksoftirqd.
var softirqThreads = sync.OnceValue(func() (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		if name, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(name), "ksoftirqd/") {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
})
