package capture

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

// The values of -s, what the session gets of each, and how it is shown. A value replaces the one
// before, such as that of a file of settings.
func TestSnapshotLength(t *testing.T) {
	t.Parallel()
	var o Options
	for _, test := range []struct {
		text, shown      string
		snapLen, payload int
		headers          bool
	}{
		{"96", "96", 96, 0, false},
		{"headers", "headers", 0, 0, true},
		{"1k", "1024", 1024, 0, false},
		{"headers+64", "headers+64", 0, 64, true},
		{"headers+2k", "headers+2048", 0, 2048, true},
		{"headers+0", "headers", 0, 0, true},
		{"0", "", 0, 0, false},
	} {
		if err := o.snapLen.Set(test.text); err != nil {
			t.Errorf("%s: %v", test.text, err)
		}
		s := o.sessionOptions()
		if o.snapLen.String() != test.shown || s.SnapLen != test.snapLen || s.Payload != test.payload || s.HeadersOnly != test.headers {
			t.Errorf("%s: %s, %d, %d, %v", test.text, &o.snapLen, s.SnapLen, s.Payload, s.HeadersOnly)
		}
	}
	for _, text := range []string{"", "header", "headers+", "headers64", "headers-1", "headers+-1", "headers++1", "headers+x", "+headers", "Headers", "1+headers", "9Z"} {
		if err := o.snapLen.Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if got := lengthOf(capture.Options{SnapLen: 96}); got != "96 bytes" {
		t.Error(got)
	}
	if got := lengthOf(capture.Options{SnapLen: 96, HeadersOnly: true, Payload: 4}); got != "headers+4" {
		t.Error(got)
	}
}
