package message

import (
	"slices"
	"testing"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"count", "count", 0},
		{"snaplen", "snapleng", 1}, // inserted
		{"NO_SOCKE", "NO_SOCKET", 1},
		{"intreface", "interface", 1}, // swapped
		{"kitten", "sitting", 3},
	} {
		if got, back := distance(test.a, test.b), distance(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%q and %q: %d, and back %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}

// The nearest words come first, then words that are begun, and no word is near to a short one.
func TestNearest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		word  string
		known []string
		want  []string
	}{
		{"prot", []string{"proto", "host", "port"}, []string{"proto", "port"}},
		{"sampel", []string{"sample-flows", "simple", "sample"}, []string{"sample", "simple"}},
		{"gate", []string{"host", "gateway"}, []string{"gateway"}},
		{"eth", []string{"lo", "enp3s0", "eth0", "eth1", "eth2", "eth3"}, []string{"eth0", "eth1", "eth2"}},
		{"enp", []string{"eno", "enp3s0"}, []string{"eno"}},
		{"ip", []string{"ip6"}, nil},
		{"retries", []string{"ring", "reason"}, nil},
	} {
		if got := Nearest(test.word, test.known); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.word, got, test.want)
		}
	}
	if got, want := DidYouMean("--", "sampel", []string{"sample", "simple"}), ": did you mean --sample or --simple?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
