package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// limitHeap lets Go collect its garbage more often before it has half of the available memory.
// The rings, and the packets that wait for a file, are no part of Go's heap and may have the rest.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(machine.AvailableMemory().Bytes / 2))
	}
}

// waitingThreads is how many threads a command has besides those that run Go code at a time: they
// wait in system calls, such as for a file that stalls, or are Go's own.
const waitingThreads = 10

// limitThreads lets Go run code in no more threads than can be had, because Go ends a process that
// gets none with a stack of each goroutine. It returns an error where there are too few for that.
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
