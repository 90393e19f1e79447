package machine

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is the amount of memory that this process can still get, and the limit that determines it.
type Memory struct {
	Bytes uint64
	bound string // the limit as text; "" = the machine's memory
}

// String returns the number with its unit, followed by the limit unless that is the machine's
// memory.
func (m Memory) String() string {
	text := fmt.Sprintf("%d MiB", m.Bytes>>20)
	if m.bound != "" {
		text += ", " + m.bound
	}
	return text
}

// IsOfMachine reports whether only the machine's memory is the limit, not one of this process.
func (m Memory) IsOfMachine() bool { return m.bound == "" }

// AvailableMemory returns how much memory this process can get without swapping: the minimum of the
// memory left on this machine, in each of its cgroups and of its address space. If the kernel does
// not report these, it is more than any machine has. The call takes about 0.1 ms.
func AvailableMemory() Memory { return least(MachineMemory(), memoryCgroups()) }

// least returns the minimum of the memory left on the machine and in the cgroups.
func least(machine Memory, cgroups []cgroup) Memory {
	least := machine
	for _, c := range cgroups {
		if m, ok := c.memory(); ok && m.Bytes < least.Bytes {
			least = m
		}
	}
	return least
}

// MachineMemory is AvailableMemory for memory that the kernel charges to no cgroup: perf's rings.
func MachineMemory() Memory {
	least := Memory{Bytes: math.MaxUint64}
	kib, _, _ := strings.Cut(fieldOf(readerOf(memoryOfMachine), "MemAvailable"), " ")
	if n, err := strconv.ParseUint(kib, 10, 50); err == nil {
		least.Bytes = n << 10
	}
	if m, ok := addressSpace(); ok && m.Bytes < least.Bytes {
		least = m
	}
	return least
}

// memoryCgroups are the cgroups that limit the memory at the first call; they stay open.
var memoryCgroups = sync.OnceValue(func() []cgroup {
	return boundedCgroups("/", "memory", (*cgroup).memoryLimit, memoryFiles...)
})

// memoryFiles are the files, in both versions, with a cgroup's limit and usage.
var memoryFiles = []string{
	"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max", "memory.high", "memory.current", "memory.stat",
}

// memoryLimit returns the number of bytes that the processes of a cgroup and of its descendants may
// use. Above memory.high, version 2 only slows them down, but so much that a capture stops.
func (c *cgroup) memoryLimit() (uint64, bool) {
	if c.version == 1 {
		n, ok := c.value("memory.limit_in_bytes")
		return n, ok && n < 1<<60 // "no limit" is a larger number than that
	}
	most, bounded := c.value("memory.max")
	high, held := c.value("memory.high")
	switch {
	case bounded && held:
		return min(most, high), true
	case held:
		return high, true
	}
	return most, bounded
}

// memory returns the memory that is left in a cgroup. File pages that were not used for long count
// as free, unless they must be written first, because the kernel reclaims them.
func (c *cgroup) memory() (Memory, bool) {
	limit, bounded := c.memoryLimit()
	used, prefix, dirty := "memory.current", "", "file_"
	if c.version == 1 {
		used, prefix, dirty = "memory.usage_in_bytes", "total_", "total_"
	}
	usage, ok := c.value(used)
	if !bounded || !ok {
		return Memory{}, false
	}
	files := c.values("memory.stat", prefix+"inactive_file", dirty+"dirty", dirty+"writeback")
	usage = minus(usage, minus(files[0], files[1]+files[2]))
	return Memory{minus(limit, usage), fmt.Sprintf("of %d MiB for the cgroup %s", limit>>20, c.name)}, true
}

// runtimeSpace is the address space that is left to Go, which reserves it in pieces of 64 MiB and
// ends the process if that fails.
const runtimeSpace = 128 << 20

// These files stay open after the first read, like those of cgroups, because a process that has
// dropped its privileges can open no files.
var (
	memoryOfMachine = sync.OnceValue(func() *os.File { return open("/proc/meminfo") })
	memoryOfProcess = sync.OnceValue(func() *os.File { return open("/proc/self/statm") })
)

// open returns nil for a file that cannot be opened.
func open(path string) *os.File {
	f, _ := os.Open(path)
	return f
}

// readerOf reads a file from its beginning. A file that could not be opened reads as empty.
func readerOf(file func() *os.File) io.Reader {
	if f := file(); f != nil {
		return io.NewSectionReader(f, 0, math.MaxInt64)
	}
	return strings.NewReader("")
}

// addressSpace returns the rest of a limited address space.
func addressSpace() (Memory, bool) {
	limit, bound := AddressSpaceLimit()
	if bound == "" {
		return Memory{}, false
	}
	text, _ := io.ReadAll(readerOf(memoryOfProcess))
	pages, _, _ := strings.Cut(string(text), " ")
	size, err := strconv.ParseUint(pages, 10, 50)
	if err != nil {
		return Memory{}, false
	}
	left := minus(limit, size*uint64(os.Getpagesize())+runtimeSpace)
	return Memory{left, "of " + bound}, true
}

// AddressSpaceLimit returns the number of bytes that this process may map, also as text. The text
// is empty if ulimit -v is not set.
func AddressSpaceLimit() (bytes uint64, text string) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY {
		return 0, ""
	}
	return limit.Cur, fmt.Sprintf("%d MiB of address space (ulimit -v)", limit.Cur>>20)
}

// minus returns a - b, or 0 if b is larger.
func minus(a, b uint64) uint64 { return a - min(a, b) }
