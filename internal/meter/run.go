package meter

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// testRun is the part of union bpf_attr for BPF_PROG_TEST_RUN, linux/bpf.h.
type testRun struct {
	progFD                  uint32
	retval                  uint32
	dataSizeIn, dataSizeOut uint32
	dataIn, dataOut         uint64
	repeat, duration        uint32
	ctxSizeIn, ctxSizeOut   uint32
	ctxIn, ctxOut           uint64
	flags, cpu, batch, _    uint32
}

// runProgram runs an XDP program on a packet exactly so many times and returns its last verdict. A signal
// would end it after any number of runs, so none may reach the thread: see onQuietThread.
func runProgram(prog *ebpf.Program, packet []byte, repeat uint32) (uint32, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&packet[0])
	attr := testRun{
		progFD:     uint32(prog.FD()),
		dataSizeIn: uint32(len(packet)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&packet[0]))),
		repeat:     repeat,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return 0, os.NewSyscallError("bpf(BPF_PROG_TEST_RUN)", errno)
	}
	return attr.retval, nil
}

// onQuietThread runs f on a thread that takes no signals, on a CPU of its own or, with -1, on any. The thread
// ends with f.
func onQuietThread(cpu int, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		var all unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^all.Val[i]
		}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
			result <- fmt.Errorf("block signals: %w", err)
			return
		}
		if cpu >= 0 {
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				result <- fmt.Errorf("pin to CPU %d: %w", cpu, err)
				return
			}
		}
		result <- f()
	}()
	return <-result
}
