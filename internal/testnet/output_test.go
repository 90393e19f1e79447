package testnet

import (
	"strings"
	"testing"
)

// The awaited words may come in pieces and more than once. All that was written is kept and copied.
func TestOutput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		writes  []string
		isFound bool
	}{
		{[]string{"xdpcap: listening on rx0\n"}, true},
		{[]string{"hello\nxdpcap: list", "ening on rx0"}, true},
		{[]string{"listening on rx0\n", "listening on rx1\n"}, true},
		{[]string{"listening\non rx0\n"}, false},
	} {
		var copied strings.Builder
		o := NewOutput("listening on", &copied)
		for _, text := range test.writes {
			if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		isFound := false
		select {
		case <-o.Found:
			isFound = true
		default:
		}
		if want := strings.Join(test.writes, ""); isFound != test.isFound || o.Text() != want || copied.String() != want {
			t.Errorf("%q: found %v, kept %q, copied %q", test.writes, isFound, o.Text(), copied.String())
		}
	}
}
