package filter

import (
	"math"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

func TestReach(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]struct {
		reach       int
		readsLength bool
	}{
		"":                       {0, false},
		"ip":                     {14, false},
		"tcp port 80":            {14 + 60 + 4, false}, // the longest IPv4 header, and the ports
		"tcp[tcpflags] & 2 != 0": {14 + 60 + 14, false},
		"ether[100:4] == 1":      {104, false},
		"ether[len - 4:2] == 1":  {math.MaxInt32, true},
		"less 100":               {0, true},
	} {
		prog, err := CompileRaw(expr, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if reach, readsLength := Reach(prog), ReadsLength(prog); reach != want.reach || readsLength != want.readsLength {
			t.Errorf("%q reaches %d bytes and reads the length: %t, want %+v", expr, reach, readsLength, want)
		}
	}
	if !ReadsLength([]bpf.RawInstruction{{Op: cbpf.LdxLen}, {Op: cbpf.RetK}}) {
		t.Error("ldx len")
	}
}
