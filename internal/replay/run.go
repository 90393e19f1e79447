package replay

import (
	"math"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A testRun is the part of union bpf_attr of include/uapi/linux/bpf.h for BPF_PROG_TEST_RUN.
type testRun struct {
	program, returned             uint32
	sizeIn, sizeOut               uint32
	in, out                       uint64 // addresses
	repeat, duration              uint32
	contextSizeIn, contextSizeOut uint32
	contextIn, contextOut         uint64 // addresses
	flags, cpu, batch, _          uint32
}

// An xdpContext is struct xdp_md of include/uapi/linux/bpf.h.
type xdpContext struct {
	data, end, meta, ingress, queue, egress uint32
}

// A runner runs a program on packets. It belongs to one goroutine.
type runner struct {
	program *Program
	ingress int // index of the interface from which packets come to the program; 0 = loopback
	// refusedQueue is the lowest number of a receive queue that the kernel has refused, because the
	// interface does not have it; math.MaxUint32 = none so far.
	refusedQueue uint32
	pinner       runtime.Pinner
	attr         *testRun
	context      *xdpContext
}

func newRunner(p *Program, ingress int) *runner {
	r := &runner{program: p, ingress: ingress, refusedQueue: math.MaxUint32, attr: new(testRun), context: new(xdpContext)}
	r.pinner.Pin(r.context)
	return r
}

func (r *runner) close() { r.pinner.Unpin() }

// run runs the program once on a packet. left is the packet as the program leaves it, in the memory
// of to, and truncated to its size. took is the run time that the kernel measures, including the
// kernel's overhead. If the interface does not have the queue, the program gets queue 0.
func (r *runner) run(packet []byte, queue uint32, to []byte) (v xdp.Verdict, left []byte, took time.Duration, err error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&packet[0])
	pinner.Pin(&to[0])
	*r.attr = testRun{
		program: uint32(r.program.Kernel.FD()), sizeIn: uint32(len(packet)), sizeOut: uint32(len(to)),
		in: uint64(uintptr(unsafe.Pointer(&packet[0]))), out: uint64(uintptr(unsafe.Pointer(&to[0]))), repeat: 1,
	}
	if r.ingress != 0 {
		if queue >= r.refusedQueue {
			queue = 0
		}
		*r.context = xdpContext{end: uint32(len(packet)), ingress: uint32(r.ingress), queue: queue}
		r.attr.contextSizeIn, r.attr.contextIn = uint32(unsafe.Sizeof(*r.context)), uint64(uintptr(unsafe.Pointer(r.context)))
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(r.attr)), unsafe.Sizeof(*r.attr))
	switch {
	case errno == 0:
		return xdp.Verdict(r.attr.returned), to[:min(int(r.attr.sizeOut), len(to))], time.Duration(r.attr.duration), nil
	case errno == unix.EINVAL && r.context.queue > 0: // the interface does not have the queue
		r.refusedQueue = r.context.queue
		return r.run(packet, 0, to)
	}
	return 0, nil, 0, os.NewSyscallError("bpf(BPF_PROG_TEST_RUN)", errno)
}
