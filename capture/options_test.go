package capture

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rings take at most a quarter of the available memory. Those that nobody has asked for are
// made smaller, and those that somebody has are refused.
func TestFitBuffer(t *testing.T) {
	for _, test := range []struct {
		name      string
		asked     int
		cpus      int
		available uint64
		want      int
		notice    string
		err       string
	}{
		{"default", 0, 2, 1 << 30, DefaultBuffer, "", ""},
		{"rounded", 129 << 10, 2, 1 << 30, 256 << 10, "", ""},
		{"exactly a quarter", 0, 32, 1 << 30, DefaultBuffer, "", ""},
		{"default is too much", 0, 256, 4 << 30, 4 << 20,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 4096 MiB: they have 4 MiB", ""},
		{"never below the least", 0, 256, 64 << 20, MinBuffer,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 64 MiB: they have 128 KiB", ""},
		{"asked for too much", 1 << 30, 2, 4 << 30, 0, "",
			"rings of 1024 MiB for 2 CPUs would take more than a quarter of the available memory, which is 4096 MiB: 512 MiB fit"},
		{"the least is taken", MinBuffer, 1024, 64 << 20, MinBuffer, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notice string
			o := Options{Buffer: test.asked, Notice: func(err error) { notice += err.Error() }}
			err := o.fitBuffer(test.cpus, test.available)
			if test.err != "" {
				if !errors.Is(err, ErrBufferTooLarge) || err.Error() != test.err {
					t.Errorf("the error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.Buffer != test.want {
				t.Errorf("rings of %d bytes, want %d", o.Buffer, test.want)
			}
			if diff := cmp.Diff(test.notice, notice); diff != "" {
				t.Errorf("the notice: %s", diff)
			}
		})
	}
}
