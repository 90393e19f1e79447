package support

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The report's answer about fentry agrees with the result of loading such a program.
func TestTracingAgrees(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	loads := testnet.ProbeFentry()
	r, err := Probe(ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := Yes
	if loads != nil {
		want = No
	}
	fentry, trampolines, beside := r.Kernel.Checks.Get("fentry"), r.Kernel.Checks.Get("trampolines"), r.Features.Get(FeatureBeside)
	if fentry.Answer != want {
		t.Errorf("fentry %+v, but a load says %v", fentry, loads)
	}
	if beside.Answer != want {
		t.Errorf("beside %+v, but a load says %v", beside, loads)
	}
	if (trampolines.Answer == Yes) != (want == Yes) {
		t.Errorf("trampolines %+v, but a load says %v", trampolines, loads)
	}
	if want == No && (fentry.Reason == "" || beside.Reason != fentry.Reason) {
		t.Errorf("no without its reason: fentry %+v, beside %+v", fentry, beside)
	}
}

// The error names the cause where a program takes no further tracer, although the kernel only
// returns a number.
func TestTooManyTracers(t *testing.T) {
	t.Parallel()
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
		l, err := xdp.AttachTracer(tracer)
		if err != nil {
			return ExplainTracer(err, xdp.Program{ID: 7, Name: "target"})
		}
		t.Cleanup(func() { l.Close() })
		return nil
	}
	for range 100 {
		if err = again(); err != nil {
			break
		}
	}
	const want = "trace program target (id 7): it has as many tracers as the kernel takes: end another one"
	if refused := (*xdp.TracingError)(nil); !errors.As(err, &refused) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
