package support

import (
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// bpfFS is the conventional mount point of the BPF file system.
const bpfFS = "/sys/fs/bpf"

// limits are the conditions for features besides the kernel's features and the capabilities.
type limits struct {
	ring     int    // bytes of a capture's ring for each CPU
	least    int    // bytes of the smallest ring with which the capture works
	cpus     int    // CPUs that have a ring each
	lockable uint64 // bytes that perf lets this user lock in memory, on all CPUs
	bpfFS    bool   // a BPF file system is mounted, in which maps can be pinned
	calls    bool   // captures call a function of the kernel, which only JIT-compiled programs can
}

func findLimits(ring, least int) limits {
	l := limits{ring: ring, least: least, cpus: machine.CPUs(), lockable: math.MaxUint64, calls: callsKernel()}
	var memlock unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &memlock); {
	case err != nil, memlock.Cur == unix.RLIM_INFINITY, has(heldOrNone(), unix.CAP_IPC_LOCK), sysctl(perfParanoid) == "-1":
	default:
		l.lockable = memlock.Cur + perfLock()*uint64(l.cpus)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		l.bpfFS = hasBPFFS(string(mounts))
	} else {
		var fs unix.Statfs_t
		l.bpfFS = unix.Statfs(bpfFS, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
	}
	return l
}

// callsKernel reports whether captures call the kernel function bpf_cast_to_kern_ctx, which exists
// since Linux 6.2. On older kernels they do without it.
func callsKernel() bool {
	version, err := features.LinuxVersionCode()
	return err == nil && version >= 6<<16|2<<8
}

// largest returns the largest ring size with which all rings, each with its meta page, fit into the
// limit for locked memory: l.ring bytes, halved as often as needed; 0 if even l.least do not fit.
func (l limits) largest() int {
	for ; l.ring >= l.least && l.ring > 0; l.ring /= 2 {
		if perCPU := l.ring + os.Getpagesize(); uint64(perCPU)*uint64(l.cpus) <= l.lockable {
			return l.ring
		}
	}
	return 0
}

// perfLock returns the bytes per CPU that perf lets every user lock in addition to the user's
// limit; 0 if that cannot be read.
func perfLock() uint64 {
	kib, err := strconv.ParseUint(sysctl("kernel.perf_event_mlock_kb"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// hasBPFFS reports whether a BPF file system is in a list of mounts, /proc/PID/mountinfo in
// proc(5). A mount's type follows the field "-", after a varying number of fields.
func hasBPFFS(mounts string) bool {
	for line := range strings.Lines(mounts) {
		if _, source, _ := strings.Cut(line, " - "); strings.HasPrefix(source, "bpf ") {
			return true
		}
	}
	return false
}
