package replay

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hardware has the CPU's own counters for the calling thread's work inside the kernel. The zero
// value is for machines without such counters, such as many virtual machines.
type hardware struct {
	cycles, instructions int // file descriptors; 0 = none
}

// A work is the difference between two readings.
type work struct {
	cycles, instructions uint64
	known                bool // the CPU has both counters, and both ran
}

// A reading holds both counters, cumulative.
type reading struct {
	cycles, instructions counter
	known                bool // the CPU has both counters
}

// A counter is the kernel's record of one counter. If there are more counters than the CPU can run
// at once, the kernel runs them alternately.
type counter struct {
	Value            uint64
	Enabled, Running uint64 // ns that it was enabled, and that it really ran
}

// since returns the work since an earlier reading.
func (r reading) since(before reading) work {
	cycles, cyclesRan := r.cycles.since(before.cycles)
	instructions, instructionsRan := r.instructions.since(before.instructions)
	return work{cycles, instructions, r.known && before.known && cyclesRan && instructionsRan}
}

// since returns the rise since an earlier reading, scaled to the whole time if the counter ran only
// for a part of it. ran is false if it did not run.
func (c counter) since(before counter) (rise uint64, ran bool) {
	value, enabled, running := c.Value-before.Value, c.Enabled-before.Enabled, c.Running-before.Running
	if running == enabled || running == 0 {
		return value, running > 0
	}
	return uint64(float64(value) * float64(enabled) / float64(running)), true
}

func openHardware() hardware {
	openCounter := func(config uint64) int {
		attr := unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_HARDWARE,
			Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Config: config,
			Bits:   unix.PerfBitExcludeUser | unix.PerfBitExcludeHv,

			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return 0
		}
		return fd
	}
	return hardware{openCounter(unix.PERF_COUNT_HW_CPU_CYCLES), openCounter(unix.PERF_COUNT_HW_INSTRUCTIONS)}
}

func (h hardware) read() reading {
	if h.cycles == 0 || h.instructions == 0 {
		return reading{}
	}
	cycles, hasCycles := readCounter(h.cycles)
	instructions, hasInstructions := readCounter(h.instructions)
	return reading{cycles, instructions, hasCycles && hasInstructions}
}

func readCounter(fd int) (c counter, ok bool) {
	b := make([]byte, unsafe.Sizeof(c))
	n, err := unix.Read(fd, b)
	if err != nil || n != len(b) {
		return c, false
	}
	_, err = binary.Decode(b, binary.NativeEndian, &c)
	return c, err == nil
}

func (h hardware) close() {
	for _, fd := range []int{h.cycles, h.instructions} {
		if fd != 0 {
			unix.Close(fd)
		}
	}
}
