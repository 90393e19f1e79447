package testnet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// WaitHandled waits until the kernel has handled all packets that were sent before, at most
// Patience. Usually it does so before the system call that sends returns. On a busy machine a
// thread of each CPU does it, ksoftirqd, which sleeps when it has no more work. WaitHandled returns
// at once if /proc does not list these threads, as in a PID namespace.
//
// Packets that network cards receive are handled in interrupts, on any CPU, and some time after
// they were sent. WaitHandled waits for those whose handling has begun.
func WaitHandled(tb TB) {
	tb.Helper()
	for cpu, directory := range softirqThreads() {
		// A thread gets the CPU when an interrupt there has done its work or left it to ksoftirqd.
		// A CPU that this process may not use gives an error.
		_ = machine.Quiet(cpu, func() error { return nil })
		WaitFor(tb, "the kernel to handle what was sent", func() bool {
			stat, err := os.ReadFile(filepath.Join(directory, "stat"))
			if err != nil {
				tb.Fatalf("look at ksoftirqd: %v", err)
			}
			// The state comes after the name.
			return !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" R"))
		})
	}
}

// softirqThreads are the directories below /proc of the threads ksoftirqd, by their CPUs.
var softirqThreads = sync.OnceValue(func() map[int]string {
	found := make(map[int]string)
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		name, err := os.ReadFile(path)
		var cpu int
		if _, no := fmt.Sscanf(string(name), "ksoftirqd/%d", &cpu); err == nil && no == nil {
			found[cpu] = filepath.Dir(path)
		}
	}
	return found
})
