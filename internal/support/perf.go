package support

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
)

// OpenPerfRing opens a perf event on a CPU, through which BPF programs send records to user space,
// and maps its ring. size is in bytes: a power of two of pages. memory is the meta page, then the
// ring. The event becomes readable after each further watermark bytes. The error is ENODEV if the
// CPU is offline.
func OpenPerfRing(cpu, size, watermark int) (event int, memory []byte, err error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_RAW,
		Bits:        unix.PerfBitWatermark,
		Wakeup:      uint32(watermark),
	}
	event, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, nil, fmt.Errorf("open a perf event on CPU %d: %w", cpu, explainEvent(err))
	}
	memory, err = unix.Mmap(event, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(event)
		return -1, nil, fmt.Errorf("map a ring of %d KiB for CPU %d: %w", size>>10, cpu, explainMapping(err))
	}
	return event, memory, nil
}

// tryPerfRings opens a ring of size bytes on each of so many online CPUs, and closes all of them.
func tryPerfRings(size, cpus int) error {
	for cpu := 0; cpus > 0; cpu++ {
		if cpu == maxCPUs {
			return unix.ENODEV
		}
		event, memory, err := OpenPerfRing(cpu, size, 1)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return err
		}
		cpus--
		defer unix.Close(event)
		defer unix.Munmap(memory)
	}
	return nil
}

// maxCPUs is more than any kernel supports.
const maxCPUs = 1 << 16

// FitPerfRings returns the largest possible size in bytes of perf's ring of each CPU: size, halved
// as often as needed, but not less than least. It returns an error with the reason if this process
// cannot have such rings at any size. For a process without the capabilities it returns size,
// because CheckProcess reports the missing ones.
func FitPerfRings(size, least int) (int, error) {
	if len(missingCapabilities(heldOrNone())) > 0 {
		return size, nil
	}
	if err := tryPerfRings(os.Getpagesize(), 1); errors.Is(err, ErrPerfRefused) {
		// err has the remedy and the kernel's error in its text, too.
		reason, _ := findPerfCircumstances().cause(err)
		return 0, errors.New(reason)
	}
	l := findLimits(size, least)
	if l.lockable == math.MaxUint64 {
		return size, nil
	}
	// The size must be tried: the user's other processes share the limit, and the kernel does not
	// show how much they have locked. largest searches from l.ring downwards.
	for l.ring = l.largest(); l.ring > 0; l.ring = l.largest() {
		if !errors.Is(tryPerfRings(l.ring, l.cpus), ErrLockedMemory) {
			return l.ring, nil
		}
		l.ring /= 2
	}
	return 0, fmt.Errorf("rings of %d KiB for %d CPUs are more locked memory than this user may have", least>>10, l.cpus)
}

// explainEvent explains an error of perf_event_open.
func explainEvent(err error) error {
	if reason, remedy := findPerfCircumstances().cause(err); reason != "" {
		return message.Errorf(ErrPerfRefused, "%w: %s: %s", errno(err), reason, remedy)
	}
	return err
}

// perfCircumstances distinguish the causes for which the kernel may refuse a perf event.
type perfCircumstances struct {
	held     uint64  // capabilities
	paranoid string  // "" = unknown
	refused  refusal // possible cause if no capability is missing
}

const perfParanoid = "kernel.perf_event_paranoid"

func findPerfCircumstances() perfCircumstances {
	return perfCircumstances{held: heldOrNone(), paranoid: sysctl(perfParanoid), refused: possibleRefusal()}
}

// cause returns why perf_event_open returned an error, and the remedy; "" if the error needs no
// explanation.
func (c perfCircumstances) cause(err error) (reason, remedy string) {
	missing := "CAP_SYS_ADMIN" // Debian's kernels have the value 3: CAP_PERFMON is not enough
	if !has(c.held, unix.CAP_PERFMON) {
		missing = "CAP_PERFMON"
	}
	switch {
	case errors.Is(err, unix.EACCES) && !has(c.held, unix.CAP_SYS_ADMIN):
		return perfParanoid + " is " + c.paranoid + ", which requires " + missing,
			"run it as root (sudo), add " + strings.ToLower(missing) + " to the binary with setcap, or sysctl " + perfParanoid + "=2"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "this kernel refuses perf events " + c.refused.why, c.refused.remedy("perf_event_open")
	case errors.Is(err, unix.ENOSYS):
		return "this kernel has no perf events", "use a kernel with CONFIG_PERF_EVENTS=y"
	}
	return "", ""
}

// explainMapping explains an error of mmap for a perf ring.
func explainMapping(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return message.Errorf(ErrLockedMemory, "%w: more locked memory than this user may have, %d KiB", errno(err), findLimits(0, 0).lockable>>10)
	case errors.Is(err, unix.ENOMEM):
		return message.Errorf(ErrBufferTooLarge, "%w: %s", errno(err), addressSpace())
	}
	return err
}

// addressSpace returns the possible cause of an ENOMEM.
func addressSpace() string {
	if _, limit := machine.AddressSpaceLimit(); limit != "" {
		return "this process may have no more than " + limit
	}
	return "the machine, or the control group of this process, has no more memory"
}

// errno returns the kernel's error in err, without a library's text around it.
func errno(err error) error {
	if number := unix.Errno(0); errors.As(err, &number) {
		return number
	}
	return err
}

// probePerf opens a perf event as a capture does, with the smallest ring.
func probePerf() Check {
	return perfCheck("perf_event", tryPerfRings(os.Getpagesize(), 1), findPerfCircumstances())
}

// perfCheck turns the result of OpenPerfRing into a check.
func perfCheck(key string, err error, c perfCircumstances) Check {
	if err == nil {
		return yes(key)
	}
	if kind := ErrLockedMemory; errors.Is(err, kind) {
		return Check{Key: key, Answer: No, Reason: err.Error(), Kind: kind}
	}
	if missing := missingCapabilities(c.held); len(missing) > 0 {
		return notTried(key, missing)
	}
	if reason, remedy := c.cause(err); reason != "" {
		return no(key, reason, remedy)
	}
	return no(key, err.Error(), "")
}

// sysctl reads a kernel setting; "" = it cannot be read.
func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
