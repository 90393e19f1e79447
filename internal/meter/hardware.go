package meter

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hardware has the CPU's own counters for what the calling thread does inside the kernel. The zero
// value is for machines without such counters; virtual machines often have none.
type hardware struct {
	cycles, instructions int // file descriptors; 0 = none
}

// A work is one reading of the counters of hardware, cumulative.
type work struct {
	cycles, instructions uint64
	known                bool
}

func openHardware() hardware {
	openCounter := func(config uint64) int {
		attr := unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_HARDWARE,
			Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Config: config,
			Bits:   unix.PerfBitExcludeUser | unix.PerfBitExcludeHv,
		}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return 0
		}
		return fd
	}
	return hardware{openCounter(unix.PERF_COUNT_HW_CPU_CYCLES), openCounter(unix.PERF_COUNT_HW_INSTRUCTIONS)}
}

func (h hardware) read() work {
	if h.cycles == 0 || h.instructions == 0 {
		return work{}
	}
	cycles, ok := readCounter(h.cycles)
	instructions, ok2 := readCounter(h.instructions)
	return work{cycles, instructions, ok && ok2}
}

func readCounter(fd int) (uint64, bool) {
	var value [8]byte
	n, err := unix.Read(fd, value[:])
	return binary.NativeEndian.Uint64(value[:]), err == nil && n == len(value)
}

func (h hardware) close() {
	for _, fd := range []int{h.cycles, h.instructions} {
		if fd != 0 {
			unix.Close(fd)
		}
	}
}
