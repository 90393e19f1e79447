package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// limitHeap makes Go collect garbage more often before its heap has half of the available memory.
// The rest is for the rings and the packets that wait for a file, which are not in Go's heap.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(machine.AvailableMemory().Bytes / 2))
	}
}

// waitingThreads is the number of threads that a command has besides those that run Go code. They
// wait in system calls, such as for a file that stalls, or belong to Go's runtime.
const waitingThreads = 10

// limitThreads limits how many threads run Go code to those that are available, because Go ends a
// process that gets no thread, and prints the stacks of all goroutines. It returns an error if too
// few threads are available.
func limitThreads() error {
	can := machine.AvailableTasks()
	if can.Number <= waitingThreads {
		return fmt.Errorf("%d threads are needed, but there can only be %v: raise pids.max, which is TasksMax= of a systemd unit and --pids-limit of a container",
			waitingThreads+1, can)
	}
	if most := can.Number - waitingThreads; most < uint64(runtime.GOMAXPROCS(0)) {
		runtime.GOMAXPROCS(int(most))
	}
	return nil
}
