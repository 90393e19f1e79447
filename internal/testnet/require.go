package testnet

import (
	"context"
	"os"
	"os/exec"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// TB is the part of testing.TB that this package uses. It is declared here because programs that
// are not tests import this package, too, and must not link package testing.
type TB interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(f func())
	Skipf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// skip skips the test. On CI, and in the kernels that `make test-kernels` boots, it fails the test
// instead, because no test may be skipped silently there.
func skip(tb TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") == "true" || Emulated() {
		tb.Fatalf("here this must not be skipped: "+format, args...)
		return
	}
	tb.Skipf(format, args...)
}

// kernelTypes are held, so that the programs of all tests of a package share them.
var kernelTypes = xdp.KernelTypes()

// skipInCheck skips the test if `make check` runs it, which takes neither root nor tools.
func skipInCheck(tb TB) {
	tb.Helper()
	if os.Getenv("XDPCAP_CHECK") != "" {
		tb.Skipf("make check leaves out what needs root or a tool")
	}
}

// RequireRoot skips the test unless it runs as root. With CI=true in the environment it fails
// instead, but in `make check`, which leaves such tests out.
func RequireRoot(tb TB) {
	tb.Helper()
	skipInCheck(tb)
	if os.Geteuid() != 0 {
		skip(tb, "needs root, for network namespaces and BPF")
	}
}

// Require skips the test unless a program is installed. With CI=true in the environment it fails
// instead.
func Require(tb TB, tool string) {
	tb.Helper()
	skipInCheck(tb)
	if _, err := exec.LookPath(tool); err != nil {
		skip(tb, "needs a program: %v", err)
	}
}

// RequireLiveFrames skips the test if a Generator cannot work. With CI=true in the environment it
// fails instead.
func RequireLiveFrames(tb TB) {
	tb.Helper()
	RequireRoot(tb)
	if err := probeLiveFrames(); err != nil {
		skip(tb, "needs live frames: %v", err)
	}
}

// RequireFentry skips the test if fentry programs do not load, even on CI, because some build
// machines cannot load them. These tests run again in the kernels that `make test-kernels` boots;
// there it fails instead.
func RequireFentry(tb TB) {
	tb.Helper()
	RequireRoot(tb)
	if err := xdp.CheckTracing(); err != nil {
		tb.Skipf("needs a kernel that traces every packet: %v", err)
	}
	if err := ProbeFentry(); err != nil {
		if Emulated() {
			skip(tb, "needs fentry: %v", err)
			return
		}
		tb.Skipf("needs fentry: %v", err)
	}
}
