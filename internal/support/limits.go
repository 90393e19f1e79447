package support

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bpfFS is where the BPF file system is mounted by custom.
const bpfFS = "/sys/fs/bpf"

// limits are what decides about features besides the kernel's abilities and the capabilities.
type limits struct {
	ring     int    // bytes that a capture locks in memory per CPU
	cpus     int    // that have a ring each
	freeLock uint64 // bytes that perf lets every user lock beyond RLIMIT_MEMLOCK, on all CPUs
	bpfFS    bool   // a BPF file system is mounted, in which maps can be pinned
}

func findLimits(ring int) limits {
	l := limits{ring: ring, cpus: runtime.NumCPU()}
	l.freeLock = perfLock() * uint64(l.cpus)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		l.bpfFS = hasBPFFS(string(mounts))
	} else {
		var fs unix.Statfs_t
		l.bpfFS = unix.Statfs(bpfFS, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
	}
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

// hasBPFFS tells whether a BPF file system is among the mounts of /proc/PID/mountinfo, proc(5): a
// mount's type stands behind a field that is a hyphen, since the fields before that vary in number.
func hasBPFFS(mounts string) bool {
	for line := range strings.Lines(mounts) {
		if _, source, _ := strings.Cut(line, " - "); strings.HasPrefix(source, "bpf ") {
			return true
		}
	}
	return false
}
