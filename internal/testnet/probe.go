package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// TB is what the Require functions use of a testing.TB. Programs that are not
// tests import this package, too, and shall not link package testing.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Emulated says whether this is one of the kernels that `make test-kernels`
// boots: on an emulated machine, 10 to 30 times slower than others, whose two
// processors take turns for up to 100 ms. Its init sets the variable.
//
// Tests whose subject is time allow more of it there; Rate and Volume are for
// all. What is sent faster may find the receiver's queue full there, which
// [Pair.Stats] tells.
func Emulated() bool { return os.Getenv("XDPCAP_EMULATED") != "" }

// Rate is the rate to send at where a test wants this one, in packets per
// second: on an emulated machine less, so that the receiver's queue, 256
// packets, holds what a processor has to catch up on when its turn comes.
func Rate(rate float64) float64 {
	if Emulated() {
		return min(rate, 2000)
	}
	return rate
}

// Volume is how many packets to send where a test wants so many: a tenth of
// them on an emulated machine.
func Volume(packets uint64) uint64 {
	if Emulated() {
		return packets / 10
	}
	return packets
}

// skip skips the test, except on CI and in the kernels that `make test-kernels`
// boots, where a layer of tests that silently does not run would be a hole.
func skip(tb TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") == "true" || Emulated() {
		tb.Fatalf("here this must not be skipped: "+format, args...)
		return
	}
	tb.Skipf(format, args...)
}

// RequireRoot skips the test unless it runs as root; with the environment's
// CI=true it fails instead.
func RequireRoot(tb TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		skip(tb, "needs root, for network namespaces and BPF")
	}
}

// Require skips the test unless a program is installed; with the environment's
// CI=true it fails instead.
func Require(tb TB, tool string) {
	tb.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		skip(tb, "needs a program: %v", err)
	}
}

// RequireLiveFrames skips the test where a Generator cannot work; with the
// environment's CI=true it fails instead.
func RequireLiveFrames(tb TB) {
	tb.Helper()
	RequireRoot(tb)
	if err := ProbeLiveFrames(); err != nil {
		skip(tb, "needs live frames: %v", err)
	}
}

// RequireFentry skips the test where fentry programs do not load, on CI, too:
// there are build machines like that, and these tests run again in the kernels
// that `make test-kernels` boots, where it fails instead.
func RequireFentry(tb TB) {
	tb.Helper()
	RequireRoot(tb)
	if err := ProbeFentry(); err != nil {
		if Emulated() {
			skip(tb, "needs fentry: %v", err)
			return
		}
		tb.Skipf("needs fentry: %v", err)
	}
}

// ProbeLiveFrames says why BPF_PROG_RUN cannot send live frames here, if it
// cannot. Older kernels than 5.18 refuse the flag. Needs root.
func ProbeLiveFrames() error {
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

// ProbeFentry says why an fentry program on an XDP program does not load here,
// if it does not. Needs root.
func ProbeFentry() (err error) {
	r := &Receiver{}
	if err := r.loadCounting(xdp.Pass, ReceiverOptions{}); err != nil {
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
