package watch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// The cause of a loss follows from how it went on, and from what the reader did meanwhile.
func TestLossCause(t *testing.T) {
	t.Parallel()
	const half = LossInterval
	start := time.Now()
	before := LossReading{At: start, wanted: 1000}
	began := LossReading{At: start.Add(half), wanted: 101_000, Lost: 1000}
	on := LossReading{At: start.Add(2 * half), wanted: 301_000, Lost: 151_000}
	over := LossReading{At: start.Add(2 * half), wanted: 111_000, Lost: 1000}
	offline := LossReading{At: start.Add(2 * half), wanted: 100_500, Lost: 10}
	for _, test := range []struct {
		name  string
		began *LossReading
		now   LossReading
		spent probe.Times
		want  packet.Loss
	}{
		{"over, at once", &began, over, probe.Times{probe.Reading: half},
			packet.Loss{Lost: 1000, Wanted: 110_000, Rate: 200_000}},
		{"the CPU that lost most is offline", &began, offline, probe.Times{probe.Reading: half},
			packet.Loss{Lost: 10, Wanted: 99_500, Rate: 200_000}},
		{"goes on, with pauses", &began, on, probe.Times{probe.Reading: half / 2, probe.Writing: half / 4, probe.Waiting: half / 4},
			packet.Loss{Lost: 151_000, Wanted: 300_000, Rate: 400_000, Cause: packet.SmallRings, Idle: 0.25}},
		{"goes on, the reader is busy", &began, on, probe.Times{probe.Reading: half * 6 / 10, probe.Writing: half * 4 / 10},
			packet.Loss{Lost: 151_000, Wanted: 300_000, Rate: 400_000, Cause: packet.SlowReader, Room: 0.25}},
		{"goes on, the output is busy", &began, on, probe.Times{probe.Reading: half * 4 / 10, probe.Writing: half * 6 / 10},
			packet.Loss{Lost: 151_000, Wanted: 300_000, Rate: 400_000, Cause: packet.SlowOutput, Room: 0.25}},
		{"the session has ended", nil, on, probe.Times{},
			packet.Loss{Lost: 151_000, Wanted: 300_000, Rate: 300_000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Elapsed = 2 * half
			if diff := cmp.Diff(&test.want, newLoss(before, test.began, test.now, test.spent)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
