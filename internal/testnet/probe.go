package testnet

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ExplainsRefusals reports whether this kernel gives a message when it refuses to attach an XDP
// program. Linux 6.6 and later do.
func ExplainsRefusals() bool {
	kernel, err := kernelTypes.Kernel()
	if err != nil {
		return false
	}
	_, err = kernel.AnyTypeByName("btf_trace_bpf_xdp_link_attach_failed")
	return err == nil
}

// NoSocketFunction returns the name of the kernel's function that drops a UDP packet over IPv4 for
// which no socket is open: __udp4_lib_rcv or, where the compiler has inlined that, as in 7.3, its
// caller.
func NoSocketFunction() string {
	const called = "__udp4_lib_rcv"
	if kernel, err := kernelTypes.Kernel(); err == nil {
		if _, err := kernel.AnyTypeByName(called); err != nil {
			return "udp_rcv"
		}
	}
	return called
}

// probeLiveFrames returns an error if BPF_PROG_RUN cannot send live frames here. Kernels older than
// 5.18 refuse the flag. Needs root.
func probeLiveFrames() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Drop)), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load XDP program: %w", err)
	}
	defer prog.Close()
	return runLiveFrames(prog, make([]byte, MinFrame), 1, 1)
}

// ProbeFentry returns an error if an fentry program on an XDP program does not load here, or would
// miss packets. Needs root.
func ProbeFentry() (err error) {
	if err := xdp.CheckTracing(); err != nil {
		return err
	}
	r := &Receiver{}
	if err := r.loadFrom(xdp.Pass, ReceiverOptions{}); err != nil {
		return fmt.Errorf("load XDP program: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()

	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Tracing,
		AttachType:   ebpf.AttachTraceFEntry,
		AttachTo:     "count_packets",
		AttachTarget: r.prog,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return fmt.Errorf("load fentry program: %w", err)
	}
	return prog.Close()
}
