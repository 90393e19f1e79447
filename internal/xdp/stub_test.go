package xdp_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// returning loads a program, like a stub of the same specification, that returns a verdict.
func returning(tb testing.TB, spec ebpf.ProgramSpec, verdict int32) *ebpf.Program {
	tb.Helper()
	testnet.RequireRoot(tb)
	spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()}
	prog, err := ebpf.NewProgram(&spec)
	must(tb, err)
	tb.Cleanup(func() { prog.Close() })
	return prog
}

// A stub returns what its program returns, and its own verdict once nobody has the stub's array any
// more, as after the end of the process, although the stub still runs.
func TestStub(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]ebpf.ProgramSpec{
		"xdp":   {Name: "stub", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, Flags: unix.BPF_F_XDP_HAS_FRAGS},
		"older": {Name: "stub", Type: ebpf.XDP},
		"tc":    {Name: "stub", Type: ebpf.SchedCLS},
	} {
		t.Run(name, func(t *testing.T) {
			stub, err := xdp.NewStub(returning(t, spec, 1), spec, 2)
			must(t, err)
			kept, err := stub.Clone()
			must(t, err)
			defer kept.Close()
			run := func() uint32 {
				verdict, err := kept.Run(&ebpf.RunOptions{Data: make([]byte, testnet.MinFrame)})
				must(t, err)
				return verdict
			}
			if verdict := run(); verdict != 1 {
				t.Errorf("it returns %d, its program 1", verdict)
			}
			must(t, stub.Close())
			testnet.WaitFor(t, "the stub's own verdict", func() bool { return run() == 2 })
		})
	}
}

// BenchmarkStub measures a program by itself and behind its stub.
func BenchmarkStub(b *testing.B) {
	spec := ebpf.ProgramSpec{Name: "stub", Type: ebpf.XDP}
	prog := returning(b, spec, 1)
	stub, err := xdp.NewStub(prog, spec, 1)
	must(b, err)
	defer stub.Close()
	for name, p := range map[string]*ebpf.Program{"alone": prog, "stub": stub.Program} {
		b.Run(name, func(b *testing.B) {
			_, took, err := p.Benchmark(make([]byte, testnet.MinFrame), b.N, b.ResetTimer)
			must(b, err)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/op")
		})
	}
}
