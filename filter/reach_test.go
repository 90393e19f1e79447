package filter

import (
	"math"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

func TestReadsLength(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]bool{
		"less 100":              true,
		"ether[len - 4:2] == 1": true,
		"tcp port 80":           false,
		"":                      false,
	} {
		prog, err := CompileRaw(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ReadsLength(prog); got != want {
			t.Errorf("%q: %v, want %v", expr, got, want)
		}
	}
	if !ReadsLength([]bpf.RawInstruction{{Op: cbpf.LdxLen}, {Op: cbpf.RetK}}) {
		t.Error("ldx len")
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]int{
		"ip":                     14,
		"tcp port 80":            14 + 60 + 4 + 0, // the longest IPv4 header, and the ports
		"ether[100:4] == 1":      104,
		"ether[len - 4:2] == 1":  math.MaxInt32,
		"tcp[tcpflags] & 2 != 0": 14 + 60 + 14,
		"":                       0,
	} {
		prog, err := CompileRaw(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Reach(prog); got != want {
			t.Errorf("%q reaches %d bytes, want %d", expr, got, want)
		}
	}
}
