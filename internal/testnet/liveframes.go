package testnet

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// stopSignal ends a thread's system call. The Go runtime catches it and does
// nothing.
const stopSignal = unix.SIGIO

// testRun is the part of union bpf_attr for BPF_PROG_TEST_RUN, linux/bpf.h.
type testRun struct {
	progFD                   uint32
	retval                   uint32
	dataSizeIn, dataSizeOut  uint32
	dataIn, dataOut          uint64
	repeat, duration         uint32
	ctxSizeIn, ctxSizeOut    uint32
	ctxIn, ctxOut            uint64
	flags, cpu, batchSize, _ uint32
}

// runLiveFrames runs an XDP program repeat times, on frames that the kernel
// makes from frame and then really passes, drops or redirects. For the program
// they come from the loopback interface of the thread's namespace.
//
// It fails with EINTR after any number of runs. [ebpf.Program.Run] would then
// start over, with all of them.
func runLiveFrames(prog *ebpf.Program, frame []byte, repeat, batch uint32) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&frame[0])

	attr := testRun{
		progFD:     uint32(prog.FD()),
		dataSizeIn: uint32(len(frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat:     repeat,
		flags:      unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		batchSize:  batch,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return os.NewSyscallError("bpf(BPF_PROG_TEST_RUN)", errno)
	}
	return nil
}

// blockSignals keeps all signals but stopSignal from the thread, the runtime's
// own included.
func blockSignals() error {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = ^set.Val[i]
	}
	bits := uint(unsafe.Sizeof(set.Val[0])) * 8
	set.Val[(uint(stopSignal)-1)/bits] &^= 1 << ((uint(stopSignal) - 1) % bits)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	return nil
}

// pin keeps the thread on a CPU, -1 for any.
func pin(cpu int) error {
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}
