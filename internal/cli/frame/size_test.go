package frame

import (
	"testing"
)

// A size is a number of the flag's unit or of its suffix, and its text means the same size again:
// -r hands it on to read.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		unit int64
		want int64 // -1 = refused
	}{
		{"7", 1_000_000, 7_000_000},
		{"100M", 1_000_000, 100 << 20},
		{"500k", 1_000_000, 500 << 10},
		{"1GiB", 1, 1 << 30},
		{"10000000000", 1, 10_000_000_000},
		{"8000000000", 1 << 30, 8_000_000_000 << 30},
		{"9000000000", 1 << 30, -1},
		{"9223372036854775807", 1, -1},
		{"-1", 1, -1},
		{"+1", 1, -1},
		{"1T", 1, -1},
		{"", 1, -1},
	} {
		s := Size{Unit: test.unit}
		err := s.Set(test.text)
		if test.want < 0 {
			if err == nil {
				t.Errorf("%q is taken as %d bytes", test.text, s.Bytes)
			}
			continue
		}
		again := Size{Unit: test.unit}
		if err == nil {
			err = again.Set(s.String())
		}
		if err != nil || s.Bytes != test.want || again.Bytes != test.want {
			t.Errorf("%q: %d bytes, and %q is %d bytes: %v", test.text, s.Bytes, s.String(), again.Bytes, err)
		}
	}
}
