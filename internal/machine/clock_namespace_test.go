package machine

import "testing"

func TestParseShift(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"monotonic        3600         5\nboottime            0         0\n", 3600e9 + 5, true},
		{"monotonic        -300 999999999\nboottime           7         0\n", -300e9 + 999999999, true},
		{"boottime 7 0\nmonotonic 0 0\n", 0, true},
		{"boottime 7 0\n", 0, false},
		{"monotonic 7\n", 0, false},
		{"monotonic x 0\n", 0, false},
		{"monotonic 0 x\n", 0, false},
		{"", 0, false},
	} {
		got, err := parseShift(test.text)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %d, %v; want %d", test.text, got, err, test.want)
		}
	}
}
