package testnet

import (
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// stopSignal ends a thread's system call. The Go runtime catches and ignores it.
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

// runLiveFrames runs an XDP program repeat times on copies of frame, which the kernel then really
// passes, drops or redirects. To the program they come from the loopback interface of the thread's
// namespace.
//
// It fails with EINTR after any number of runs, and can go on from there. [ebpf.Program.Run] would
// start again with all of them.
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
