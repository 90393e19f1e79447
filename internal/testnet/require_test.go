package testnet

import (
	"os"
	"testing"
)

// fakeTB records how a helper ended a test.
type fakeTB struct {
	TB
	skipped, failed bool
}

func (*fakeTB) Helper()                 {}
func (f *fakeTB) Skipf(string, ...any)  { f.skipped = true }
func (f *fakeTB) Fatalf(string, ...any) { f.failed = true }

func TestRequire(t *testing.T) {
	const missing = "no-such-program-anywhere"
	t.Setenv("XDPCAP_EMULATED", "")
	t.Setenv("XDPCAP_CHECK", "")
	for ci, want := range map[string]fakeTB{"": {skipped: true}, "true": {failed: true}} {
		t.Setenv("CI", ci)
		var got fakeTB
		if Require(&got, missing); got != want {
			t.Errorf("with CI=%q a missing program gave %+v, want %+v", ci, got, want)
		}
		got = fakeTB{}
		if Require(&got, os.Args[0]); got != (fakeTB{}) {
			t.Errorf("with CI=%q a program gave %+v", ci, got)
		}
	}
}
