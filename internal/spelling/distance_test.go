package spelling

import "testing"

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
		{"intreface", "interface", 2}, // swapped
		{"kitten", "sitting", 3},
	} {
		if got, back := Distance(test.a, test.b), Distance(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%q and %q: %d, and back %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}
