package xdp_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kernel only has a number for the reason why a program takes no further tracer.
func TestTooManyTracers(t *testing.T) {
	testnet.RequireFentry(t)
	target, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	again := func() error {
		tracer, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type:         ebpf.Tracing,
			AttachType:   ebpf.AttachTraceFEntry,
			AttachTarget: target.Program(),
			AttachTo:     string(testnet.Rewriting),
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
			License:      "Dual BSD/GPL",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tracer.Close() })
		l, err := xdp.AttachTracer(tracer, xdp.Program{ID: 7, Name: "target"})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}
	for range 100 {
		if err = again(); err != nil {
			break
		}
	}
	const want = "trace XDP program target (id 7): it has as many tracers as the kernel takes: end another one"
	if refused := (*xdp.TracingError)(nil); !errors.As(err, &refused) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
