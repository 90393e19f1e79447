package capture

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// The flags that help are named with what they would change by the figures of the loss.
func TestLossRemedy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		loss     capture.Loss
		options  capture.Options
		printing bool
		want     string
	}{
		{"burst", capture.Loss{Size: 1500, Enough: 4 << 20}, capture.Options{Sample: 1}, false,
			"-B 4M (holds such a burst), -s 128 (at most 9 % of the bytes)"},
		{"burst of short packets", capture.Loss{Size: 64, Enough: 512 << 10}, capture.Options{Sample: 1}, true,
			"-B 512k (holds such a burst)"},
		{"burst without memory for it", capture.Loss{Size: 64}, capture.Options{Sample: 1}, false,
			"a filter or --sample (fewer packets)"},
		{"small rings", capture.Loss{Cause: capture.SmallRings, Size: 100, Enough: 16 << 20}, capture.Options{Sample: 1}, false,
			"-B 16M (holds 20ms of it)"},
		{"reader", capture.Loss{Cause: capture.SlowReader, Size: 64, Room: 0.6}, capture.Options{Sample: 1}, true,
			"--sample 2 (as many packets as find room now), --transport ring (less work for each packet)"},
		{"sampling already", capture.Loss{Cause: capture.SlowReader, Size: 256, Room: 0.25}, capture.Options{Sample: 10}, false,
			"-s 128 (at most 51 % of the bytes), --sample 40 (as many packets as find room now), --transport ring (less work for each packet)"},
		{"reader of a ring", capture.Loss{Cause: capture.SlowReader, Size: 64, Room: 0.6},
			capture.Options{Sample: 1, Transport: capture.TransportRing}, false,
			"--sample 2 (as many packets as find room now)"},
		{"file", capture.Loss{Cause: capture.SlowOutput, Size: 300, Room: 0.5}, capture.Options{Sample: 1}, false,
			"-s 128 (at most 43 % of the bytes), --sample 2 (as many packets as find room now)"},
		{"printing", capture.Loss{Cause: capture.SlowOutput, Size: 64, Room: 0.01}, capture.Options{Sample: 1}, true,
			"-w out.pcapng instead of printing (less work), --sample 100 (as many packets as find room now)"},
		{"nothing finds room", capture.Loss{Cause: capture.SlowOutput}, capture.Options{Sample: 1}, false,
			"a filter or --sample (fewer packets)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lossRemedy(&test.loss, test.options, test.printing)
			if diff := cmp.Diff("what helps: "+test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
