package meter

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The verdicts of bpf/include/verdict.h and of package xdp have the same names and numbers.
func TestVerdictsInC(t *testing.T) {
	t.Parallel()
	spec, err := loadActions()
	must(t, err)
	var enum *btf.Enum
	must(t, spec.Types.TypeByName("verdict", &enum))
	want, got := make(map[string]uint64), make(map[string]uint64)
	for slot := range xdp.VerdictSlots {
		want[xdp.Verdict(slot).SlotName()] = uint64(slot)
	}
	want["slots"] = uint64(xdp.VerdictSlots)
	for _, v := range enum.Values {
		got[strings.ToLower(strings.TrimPrefix(v.Name, "VERDICT_"))] = v.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts in Go and in C (-Go +C): %s", diff)
	}
}
