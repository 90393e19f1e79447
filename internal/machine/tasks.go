package machine

import (
	"fmt"
	"math"
	"strconv"
)

// Tasks is how many threads this process can have, including those that it has, and which limit
// decides that.
type Tasks struct {
	Number uint64
	bound  string
}

// String is the number, followed by the cgroup's name and limit if a cgroup decides.
func (t Tasks) String() string {
	if t.bound == "" {
		return strconv.FormatUint(t.Number, 10)
	}
	return fmt.Sprintf("%d, %s", t.Number, t.bound)
}

// AvailableTasks is how many threads the cgroups of this process allow it; they count processes and
// threads alike. Without a limit it is more than any process has.
func AvailableTasks() Tasks { return availableTasks("/") }

// availableTasks looks until two looks agree: the numbers come from several files, and one look is
// wrong by one where Go starts a thread meanwhile.
func availableTasks(root string) Tasks {
	for before := lookForTasks(root); ; {
		now := lookForTasks(root)
		if now == before {
			return now
		}
		before = now
	}
}

func lookForTasks(root string) Tasks {
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

// taskLimit is how many processes and threads a cgroup and those below it may have.
func (c *cgroup) taskLimit() (uint64, bool) { return c.value("pids.max") }
