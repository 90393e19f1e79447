package capture

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

var morning = time.Date(2026, 11, 27, 10, 20, 30, 0, time.Local)

func busy() *progress {
	return &progress{
		at: morning, elapsed: 12*time.Minute + 31*time.Second, seen: 1_234_567, captured: 1_200_000,
		files:   &file.Existing{Files: 34, Keep: 48, Bytes: 61 << 30, Since: morning.Add(-11 * time.Hour), Free: 77 << 30},
		clients: &connections{ServerAccount: stream.ServerAccount{Connected: 2}}, ringUse: 0.02, left: untilLimits(12*time.Minute+31*time.Second, time.Hour, 0, 0, ""),
	}
}

func drawn(s *progress, p frame.Page) string {
	var b bytes.Buffer
	p.Writer = &b
	rates := []float64{1, 2, 4, 8, 0, 95_000}
	s.write(&p, rates, 612e6)
	return b.String()
}

// The lines fit the window. What matters less gives way first, and in a wide window there is a
// longer trend.
func TestLines(t *testing.T) {
	t.Parallel()
	for columns, want := range map[int]string{
		120: "00:12:31  1.2 M seen  1.2 M captured  0 lost  95.0 kpkt/s                          ▁▁▁▁ █  612.0 Mbit/s\n" +
			"ring 34/48 files, 61 GiB, back to Thu 23:20 | 77 GiB free | 2 clients | rings 2 % | 00:47:29 left\n",
		80: "00:12:31  1.2 M seen  1.2 M captured  0 lost  95.0 kpkt/s   ▁▁▁▁ █  612.0 Mbit/s\n" +
			"ring 34/48 files, 61 GiB, back to Thu 23:20 | 2 clients | 00:47:29 left\n",
		50: "00:12:31  1.2 M captured  0 lost  95.0 kpkt/s\n" +
			"ring 34/48 files, 61 GiB, back to Thu 23:20\n",
	} {
		got := drawn(busy(), frame.Page{Columns: columns, Blocks: true})
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(line) - 1; n > columns {
				t.Errorf("%d columns of %d: %s", n, columns, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
}

// Losses are red. Only what applies is shown: what is armed, one file, the packets that are left.
func TestParts(t *testing.T) {
	t.Parallel()
	lossy := busy()
	lossy.lost = 7
	if got := drawn(lossy, frame.Page{Columns: 120, Colored: true}); !strings.Contains(got, "  \x1b[31m7 lost\x1b[m  ") {
		t.Errorf("%q", got)
	}
	for _, test := range []struct {
		s    progress
		want string
	}{
		{progress{}, "rings 0 %"},
		{progress{files: &file.Existing{Files: 1, Bytes: 3 << 20, Free: -1}, left: untilLimits(0, 0, 210, 1000, "--packet-count")}, "3 MiB written | rings 0 % | 21 % of --packet-count 1000"},
		{progress{at: morning, files: &file.Existing{Files: 2, Bytes: 3 << 20, Since: morning.Add(-time.Minute)}}, "2 files, 3 MiB, since 10:19:30 | 0 bytes free | rings 0 %"},
		{
			progress{recorder: &recorderProgress{recorder.State{Bytes: 31 << 20, Held: 9800 * time.Millisecond, Ahead: 10 * time.Second}, 0}},
			"recorder armed, holds 9.8 s of 10s, 31 MiB, 0 recordings | rings 0 %",
		},
		{progress{recorder: &recorderProgress{recorder.State{Writes: true}, 1}}, "recorder writing, holds 0.0 s, 0 bytes, 1 recording | rings 0 %"},
		{progress{clients: &connections{ServerAccount: stream.ServerAccount{Connected: 1, Lost: 3}}}, "1 client, 3 lost | rings 0 %"},
	} {
		_, got, _ := strings.Cut(drawn(&test.s, frame.Page{Columns: 100}), "\n")
		if diff := cmp.Diff(test.want+"\n", got); diff != "" {
			t.Error(diff)
		}
	}
}

// The status replaces itself, goes for what is printed, and comes back below that. In a narrower
// window its lines have been wrapped.
func TestBar(t *testing.T) {
	t.Parallel()
	columns := 80
	var out bytes.Buffer
	b := &bar{out: &out, screen: &frame.Screen{Size: func() (int, int, error) { return columns, 24, nil }}, last: progress{at: morning}}
	b.show(&progress{at: morning.Add(time.Second), elapsed: time.Second, captured: 500, bytes: 500_000})
	first := out.String()
	if want := "00:00:01  0 seen  500 captured  0 lost  500 pkt/s  "; !strings.HasPrefix(first, want) || !strings.Contains(first, "  4.0 Mbit/s\x1b[K\nrings 0 %\x1b[K\n") {
		t.Errorf("%q, want %q", first, want)
	}
	out.Reset()
	columns = 41
	b.around(func() { out.WriteString("a notice\n") })
	b.show(&progress{at: morning.Add(2 * time.Second), captured: 500})
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[3A\x1b[Ja notice\n00:00:00  ") {
		t.Errorf("%q", got)
	}
	var none *bar
	out.Reset()
	none.around(func() { out.WriteString("a notice\n") })
	if out.String() != "a notice\n" {
		t.Errorf("without a terminal: %q", out.String())
	}
}
