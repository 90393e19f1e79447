package xdp_test

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What probe says of fentry is what a load of it finds.
func TestTracingAgrees(t *testing.T) {
	testnet.RequireRoot(t)
	loads := testnet.ProbeFentry()
	r, err := xdp.Probe(xdp.ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := xdp.Yes
	if loads != nil {
		want = xdp.No
	}
	fentry, beside := r.Kernel.Checks.Get("fentry"), r.Features.Get(xdp.FeatureBeside)
	if fentry.Answer != want || beside.Answer != want {
		t.Errorf("fentry %+v, beside %+v, but a load says %v", fentry, beside, loads)
	}
	if want == xdp.No && (fentry.Reason == "" || beside.Reason != fentry.Reason) {
		t.Errorf("no without its reason: fentry %+v, beside %+v", fentry, beside)
	}
	if err := xdp.CheckTracing(); (err == nil) != (loads == nil) {
		t.Errorf("CheckTracing says %v, a load %v", err, loads)
	}
}
