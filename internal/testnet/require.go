package testnet

import (
	"os"
	"os/exec"
)

// TB is what this package uses of a testing.TB. Programs that are not tests
// import this package, too, and shall not link package testing.
type TB interface {
	Helper()
	Cleanup(f func())
	Skipf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
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
