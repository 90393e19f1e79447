package capture

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A stampedHook is a stillHook at a card that stamps packets.
type stampedHook struct {
	*stillHook
	stamps *probe.CardStamps
}

func (h *stampedHook) Card() probe.Card { return probe.Card{Stamps: h.stamps, Hashes: ToeplitzHash} }

// ahead is by how much the card's clock is ahead of the machine's in these tests.
const ahead = int64(37 * time.Second)

// fakeCard is a clock that can be compared so many times.
func fakeCard(t *testing.T, times int) *machine.CardClock {
	t.Helper()
	c, err := machine.NewCardClock("/dev/ptp9", func() (machine.ClockComparison, error) {
		if times--; times < 0 {
			return machine.ClockComparison{}, errors.New("asleep")
		}
		now, err := machine.Monotonic()
		return machine.ClockComparison{Card: now + ahead, Monotonic: now, Within: time.Microsecond}, err
	})
	must(t, err)
	return c
}

// stampedSession has a record of each stamp of the card, which is relative to the packet's own
// time; 0 = none. The packets' own times are so long after each other.
func stampedSession(t *testing.T, o Options, apart time.Duration, stamps []time.Duration) (s *Session, first int64) {
	t.Helper()
	now, err := machine.Monotonic()
	must(t, err)
	first = now
	list := new(ring.List)
	packet := packetOf(60, 1)
	for i, stamp := range stamps {
		host := first + int64(i)*int64(apart)
		f := ring.NewRecord(packet, uint64(host))
		f.Hash, f.HashKind = uint32(i), 1
		if stamp != 0 {
			f.CardTime = host + ahead + int64(stamp)
		}
		list.Records = append(list.Records, f.Raw(packet))
	}
	var own *probe.CardStamps
	switch o.Stamp {
	case AdapterStamp:
		own = &probe.CardStamps{Kind: o.Stamp, Clock: fakeCard(t, 2)}
	case AdapterUnsyncedStamp:
		own = &probe.CardStamps{Kind: o.Stamp}
	}
	n := uint64(len(stamps))
	h := &stampedHook{&stillHook{source: Source{Name: "eth9", CardMetadata: []string{"timestamp"}}, account: kernel.SamplerAccount{Seen: n, Sampled: n}}, own}
	return openStill(t, o, ring.NewLists(list).New, h), first
}

// The card's stamps are brought to the wall clock or left as they are. Those that are missing or
// far off are the host's, and counted. The order stays that of the host's.
func TestAdapterStamps(t *testing.T) {
	t.Parallel()
	const us, ms = time.Microsecond, time.Millisecond
	stamps := []time.Duration{-5 * us, -3 * ms, 0, -2 * us, 3 * time.Second}
	for _, test := range []struct {
		name      string
		options   Options
		want      []time.Duration // from the first packet's own time on, on the card's clock if that is far away
		unstamped uint64
	}{
		{"host", Options{}, []time.Duration{0, ms, 2 * ms, 3 * ms, 4 * ms}, 0},
		{"adapter", Options{Stamp: AdapterStamp}, []time.Duration{-5 * us, -2 * ms, 2 * ms, 3*ms - 2*us, 4 * ms}, 2},
		{"at once", Options{Stamp: AdapterStamp, Immediate: true}, []time.Duration{-5 * us, -2 * ms, 2 * ms, 3*ms - 2*us, 4 * ms}, 2},
		{"unsynced", Options{Stamp: AdapterUnsyncedStamp}, []time.Duration{-5 * us, -2 * ms, 2 * ms, 3*ms - 2*us, 3*time.Second + 4*ms}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, first := stampedSession(t, test.options, ms, stamps)
			s.Stop()
			out, account := s.run(t)
			if len(out.packets) == 0 {
				t.Fatal("no packets")
			}
			// The session compares the clocks again and again, with results that differ by some ns.
			offset := out.packets[0].Time - first
			if off := time.Duration(offset - s.reader.Clock.Offset).Abs(); off > ms {
				t.Errorf("the first packet's own time is off by %v", off)
			}
			var got []time.Duration
			for i, p := range out.packets {
				stamp := p.Stamp() - first - offset
				if test.options.Stamp == AdapterUnsyncedStamp && p.CardTime != 0 {
					stamp = p.Stamp() - first - ahead
				}
				got = append(got, time.Duration(stamp).Round(time.Microsecond))
				if p.Hash != uint32(i) || p.HashKind != ToeplitzHash {
					t.Errorf("packet %d: hash %d of kind %d", i, p.Hash, p.HashKind)
				}
				if own := p.Time - first - offset; own != int64(i)*int64(ms) {
					t.Errorf("packet %d: its own time is %d", i, own)
				}
			}
			same(t, test.want, got)
			want := Accounts{{Seen: 5, Captured: 5, Bytes: 300, Unstamped: test.unstamped}}
			same(t, want, account)
		})
	}
}

// What a clock says is told, and a clock that cannot be compared any more is a notice, once.
func TestCardClocks(t *testing.T) {
	t.Parallel()
	var told []string
	s, _ := stampedSession(t, Options{Stamp: AdapterStamp, Notice: notices(&told)}, 0, nil)
	clocks := s.CardClocks()
	offset, _, err := machine.ClockOffset()
	must(t, err)
	if wrong := (clocks[0].Ahead - time.Duration(ahead-offset)).Abs(); clocks[0].Name != "/dev/ptp9" || wrong > time.Millisecond {
		t.Errorf("%+v", clocks[0])
	}
	if text := clocks[0].String(); !strings.HasPrefix(text, "/dev/ptp9 is ") || !strings.HasSuffix(text, "us per second") {
		t.Error(text)
	}
	d := s.Description()
	if text := d.comment(""); !strings.Contains(text, "eth9: at the start /dev/ptp9 is ") {
		t.Error(text)
	}
	s.Stop()
	s.watch.Close() // which measures, too
	s.watch = nil
	for range 3 {
		probe.MeasureClocks(s.roster.Cards(), s.notice)
	}
	want := []string{"the card's clock cannot be compared again, and its stamps use the last comparison: compare /dev/ptp9 with the system's clock: asleep"}
	same(t, want, told)
}
