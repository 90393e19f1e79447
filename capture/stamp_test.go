package capture

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A stampedHook is a stillHook at a card that stamps packets.
type stampedHook struct {
	*stillHook
	stamps *cardStamps
}

func (h *stampedHook) card() card { return card{stamps: h.stamps, hashes: ToeplitzHash} }

// ahead is by how much the card's clock is ahead of the machine's in these tests.
const ahead = int64(37 * time.Second)

// fakeCard is a clock that can be compared so many times.
func fakeCard(t *testing.T, times int) *clock.Card {
	t.Helper()
	c, err := clock.NewCard("/dev/ptp9", func() (clock.Comparison, error) {
		if times--; times < 0 {
			return clock.Comparison{}, errors.New("asleep")
		}
		now, err := clock.Monotonic()
		return clock.Comparison{Card: now + ahead, Monotonic: now, Within: time.Microsecond}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stampedSession has a record of each stamp of the card, which is relative to the packet's own
// time; 0 = none. The packets' own times are so long after each other.
func stampedSession(t *testing.T, o Options, apart time.Duration, stamps []time.Duration) (s *Session, first int64) {
	t.Helper()
	testnet.RequireRoot(t)
	now, err := clock.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	first = now
	ring := new(listRing)
	packet := packetOf(60, 1)
	for i, stamp := range stamps {
		host := first + int64(i)*int64(apart)
		f := sampleOf(packet, uint64(host))
		f.Hash, f.HashKind = uint32(i), 1
		if stamp != 0 {
			f.CardTime = host + ahead + int64(stamp)
		}
		ring.records = append(ring.records, recordOf(f, packet))
	}
	var own *cardStamps
	switch o.Stamp {
	case AdapterStamp:
		own = &cardStamps{kind: o.Stamp, clock: fakeCard(t, 2)}
	case AdapterUnsyncedStamp:
		own = &cardStamps{kind: o.Stamp}
	}
	n := uint64(len(stamps))
	h := &stampedHook{&stillHook{source: Source{Name: "eth9", Asked: []string{"timestamp"}}, account: samplerAccount{Seen: n, Sampled: n}}, own}
	o.Interfaces = []string{"unused"}
	if o, err = o.withDefaults(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(o, []hook{h}, listed(ring)); err != nil {
		t.Fatal(err)
	}
	return s, first
}

// The card's stamps are brought to the wall clock or left as they are. Those that are missing or
// far off are the host's, and counted. The order stays that of the host's.
func TestAdapterStamps(t *testing.T) {
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
			s, first := stampedSession(t, test.options, ms, stamps)
			s.Stop()
			offset := s.reader.clock.Offset
			out := new(memory)
			accounts, err := s.Run(t.Context(), out)
			if err != nil {
				t.Fatal(err)
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
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			want := Accounts{{Seen: 5, Captured: 5, Bytes: 300, Unstamped: test.unstamped}}
			if diff := cmp.Diff(want, accounts[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Files begin and end by the host's time, whatever the card's stamps are, and say what they have.
func TestAdapterRotation(t *testing.T) {
	stamps := make([]time.Duration, 300)
	for i := range stamps {
		stamps[i] = time.Duration(i%50)*time.Minute + 1
	}
	const apart = time.Hour / 100
	s, first := stampedSession(t, Options{Stamp: AdapterUnsyncedStamp}, apart, stamps)
	s.Stop()
	dir := t.TempDir()
	var paths []string
	f, err := OpenFiles(Rotation{
		Period:   time.Hour,
		Origin:   time.Unix(0, first+s.reader.clock.Offset),
		Path:     func(p Place) string { return filepath.Join(dir, p.Began.UTC().Format("150405.000")+".pcapng") },
		Finished: func(path string) { paths = append(paths, path) },
	}, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := s.Run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := hashedPackets(t, raw)
		for i, at := range all {
			n := len(counts)*100 + i
			if want := first + int64(n)*int64(apart) + ahead + int64(stamps[n]); at != want {
				t.Errorf("packet %d is stamped %d, want %d", n, at, want)
			}
		}
		counts = append(counts, len(all))
		for _, want := range []string{
			"eth9: the card was asked for timestamp\n",
			"time stamps: adapter_unsynced; packets without a stamp from the card have the host's; packets are in the order of the host's stamps, so stamps may step back\n",
		} {
			if !bytes.Contains(raw, []byte(want)) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
	}
	if diff := cmp.Diff([]int{100, 100, 100}, counts); diff != "" {
		t.Errorf("packets of the files: %s", diff)
	}
}

// hashedPackets returns the stamps of the packets of a file that have a hash.
func hashedPackets(t *testing.T, raw []byte) (stamps []int64) {
	t.Helper()
	for len(raw) > 0 {
		length, _, err := pcapng.BlockLength(raw, false)
		if err != nil {
			t.Fatal(err)
		}
		b, err := pcapng.ParseBlock(raw[:length], false)
		if err != nil {
			t.Fatal(err)
		}
		if b.Type == pcapng.TypePacket {
			var p pcapng.Packet
			if err := pcapng.ParsePacket(b, 0, &p); err != nil {
				t.Fatal(err)
			}
			if p.Fields&pcapng.HasHash != 0 {
				stamps = append(stamps, int64(p.Time))
			}
		}
		raw = raw[length:]
	}
	return stamps
}

// What a clock says is told, and a clock that cannot be compared any more is a notice, once.
func TestCardClocks(t *testing.T) {
	var notices []string
	s, _ := stampedSession(t, Options{Stamp: AdapterStamp, Notice: func(err error) { notices = append(notices, err.Error()) }}, 0, nil)
	defer s.Close()
	clocks := s.CardClocks()
	offset, _, err := clock.Offset()
	if err != nil {
		t.Fatal(err)
	}
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
	s.watch.close() // which measures, too
	s.watch = nil
	for range 3 {
		s.measureClocks()
	}
	want := []string{"the card's clock cannot be compared again, and its stamps use the last comparison: compare /dev/ptp9 with the system's clock: asleep"}
	if diff := cmp.Diff(want, notices); diff != "" {
		t.Error(diff)
	}
}
