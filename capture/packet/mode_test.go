package packet

import "testing"

func TestModeString(t *testing.T) {
	t.Parallel()
	for mode, want := range map[Mode]string{Auto: "auto", Native: "native", Generic: "generic", Offload: "offload", Offload + 1: "4", -1: "-1"} {
		if got := mode.String(); got != want {
			t.Errorf("mode %d is called %q, want %q", int(mode), got, want)
		}
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		want Mode
		ok   bool
	}{
		{"auto", Auto, true},
		{"native", Native, true},
		{"generic", Generic, true},
		{"offload", Auto, false}, // nothing of ours can be attached there
		{"", Auto, false},
	} {
		if got, err := ParseMode(test.name); got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
}
