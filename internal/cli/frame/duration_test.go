package frame

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A time without a unit is in seconds.
func TestDurations(t *testing.T) {
	t.Parallel()
	var got time.Duration
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	Define(f, Flag{Name: "interval", Value: &got, Default: "1s"})
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "1": time.Second, "200ms": 200 * time.Millisecond, "1h30m": 90 * time.Minute,
	} {
		if err := f.Set("interval", text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0s", ".", "1e3", "inf", "-1s", "1 s", "99999999999", "1d"} {
		if err := f.Set("interval", text); err == nil {
			t.Errorf("%q was taken as %v", text, got)
		}
	}
}
