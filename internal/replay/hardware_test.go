package replay

import "testing"

// A counter that had to take turns with others is scaled to the whole time; one that never ran is
// not known.
func TestCounterSince(t *testing.T) {
	t.Parallel()
	before := counter{Value: 1000, Enabled: 500, Running: 100}
	for _, test := range []struct {
		name  string
		now   counter
		want  uint64
		known bool
	}{
		{"all the time", counter{4000, 800, 400}, 3000, true},
		{"a quarter of it", counter{4000, 900, 200}, 12000, true},
		{"not at all", counter{1000, 900, 100}, 0, false},
		{"no time has passed", before, 0, false},
		{"for long", counter{1000 + 1<<60, 500 + 1<<41, 100 + 1<<40}, 1 << 61, true},
	} {
		if got, known := test.now.since(before); got != test.want || known != test.known {
			t.Errorf("%s: %d, %v; want %d, %v", test.name, got, known, test.want, test.known)
		}
	}
	r := reading{cycles: counter{10, 2, 1}, instructions: counter{20, 2, 2}, known: true}
	if got, want := r.since(reading{known: true}), (work{20, 20, true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r.since(reading{}).known {
		t.Error("known, although the reading before failed")
	}
}
