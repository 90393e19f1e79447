package machine

import (
	"fmt"
	"math"
	"strconv"
)

// Tasks is the number of threads that this process can have, including its present ones, and the
// limit that determines it.
type Tasks struct {
	Number uint64
	bound  string
}

// String returns the number, followed by the cgroup's name and limit if a cgroup determines it.
func (t Tasks) String() string {
	if t.bound == "" {
		return strconv.FormatUint(t.Number, 10)
	}
	return fmt.Sprintf("%d, %s", t.Number, t.bound)
}

// AvailableTasks returns the number of threads that the cgroups of this process allow it; they
// count processes and threads alike. Without a limit it is more than any process has.
func AvailableTasks() Tasks { return availableTasks("/") }

// availableTasks is AvailableTasks with all files below root, for tests.
func availableTasks(root string) Tasks {
	return stable(func() Tasks { return readTasks(root) })
}

// stable calls read until two results agree, at most twenty times. read reads several files: if Go
// starts a thread between two of them, the result is wrong by one.
func stable(read func() Tasks) (now Tasks) {
	before := read()
	for range 19 {
		if now = read(); now == before {
			break
		}
		before = now
	}
	return now
}

func readTasks(root string) Tasks {
	least := Tasks{Number: math.MaxUint64}
	for _, c := range boundedCgroups(root, "pids", (*cgroup).taskLimit, "pids.max", "pids.current") {
		limit, _ := c.taskLimit()
		used, ok := c.value("pids.current")
		if n := minus(limit, used); ok && n < least.Number {
			least = Tasks{n, fmt.Sprintf("of %d processes and threads for the cgroup %s", limit, c.name)}
		}
		c.close()
	}
	if least.bound == "" {
		return least
	}
	own, err := strconv.ParseUint(field(root+"/proc/self/status", "Threads"), 10, 32)
	if err != nil {
		own = 1
	}
	least.Number += own
	return least
}

// taskLimit returns the number of processes and threads that a cgroup and its descendants may have.
func (c *cgroup) taskLimit() (uint64, bool) { return c.value("pids.max") }
