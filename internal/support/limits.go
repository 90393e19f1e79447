package support

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const bpfFS = "/sys/fs/bpf"

// limits are what decides about features besides the kernel's abilities and the capabilities.
type limits struct {
	ring     int    // bytes that a capture locks in memory per CPU
	cpus     int    // that have a ring each
	freeLock uint64 // bytes that perf lets every user lock beyond RLIMIT_MEMLOCK, on all CPUs
	bpfFS    bool   // a BPF file system is mounted where maps are pinned
}

func findLimits(ring int) limits {
	l := limits{ring: ring, cpus: runtime.NumCPU()}
	l.freeLock = perfLock() * uint64(l.cpus)
	var fs unix.Statfs_t
	l.bpfFS = unix.Statfs(bpfFS, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
	return l
}

// perfLock is how many bytes perf lets every user lock per CPU in addition to the user's limit; 0
// if that cannot be read.
func perfLock() uint64 {
	set, err := os.ReadFile("/proc/sys/kernel/perf_event_mlock_kb")
	if err != nil {
		return 0
	}
	kib, err := strconv.ParseUint(strings.TrimSpace(string(set)), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
