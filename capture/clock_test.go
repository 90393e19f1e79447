package capture

import (
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
)

// Where the wall clock is set, the packets of before have the time of before, and the next one has
// the new time. If it is set back, that packet says so, and so does a notice.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		forward time.Duration
	}{
		{"forward", time.Hour},
		{"back", -time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := new(ring.List)
			h := &stillHook{source: Source{Name: "still"}, account: kernel.SamplerAccount{Seen: 6, Sampled: 6}}
			var told []string
			s := openStill(t, Options{Count: 6, Notice: notices(&told)}, ring.NewLists(r).New, h)
			// The session knows the offset of before.
			w := &s.reader.Clock.WallClock
			truth := w.Offset
			w.Offset -= int64(test.forward)
			packet := packetOf(60, 1)
			// Three packets are from before the time at which the offset is read again.
			for i := range int64(6) {
				f := ring.NewRecord(packet, uint64(w.Until+i-2))
				f.ID = uint64(f.Time)
				r.Records = append(r.Records, f.Raw(packet))
			}
			out, _ := s.run(t)
			if len(out.packets) != 6 {
				t.Fatalf("%d packets", len(out.packets))
			}
			for i, p := range out.packets {
				offset, back := truth, time.Duration(0)
				if i < 3 {
					offset -= int64(test.forward)
				}
				if i == 3 {
					back = max(0, -test.forward)
				}
				const slack = 200 * time.Microsecond
				if off := time.Duration(p.Time - offset - int64(p.ID)).Abs(); off > slack {
					t.Errorf("packet %d: its time is off by %v", i, off)
				}
				if (p.ClockSetBack - back).Abs() > slack {
					t.Errorf("packet %d: set back by %v, want %v", i, p.ClockSetBack, back)
				}
			}
			var want []string
			if test.forward < 0 {
				want = []string{"the wall clock was set back by 1h0m0s, and the times of the packets go back with it"}
			}
			same(t, want, told)
		})
	}
}
