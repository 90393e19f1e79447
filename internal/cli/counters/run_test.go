package counters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// A fakeMeter counts ten more with every snapshot.
type fakeMeter struct {
	value    atomic.Uint64
	messages bytes.Buffer // what a run says besides its reports
	fail     error
	name     string // "" = fake0
	began    time.Time
	closed   *int // counts calls of Close; may be nil

	follow func() (string, error) // nil: nothing ever changes
}

func (m *fakeMeter) String() string {
	if m.name != "" {
		return m.name
	}
	return "fake0"
}

func (m *fakeMeter) Read() (uint64, error) { return m.value.Add(10), m.fail }
func (m *fakeMeter) Close() error {
	if m.closed != nil {
		*m.closed++
	}
	return nil
}
func (m *fakeMeter) Capabilities() []int { return nil }

func (m *fakeMeter) Began() time.Time { return m.began }

func (m *fakeMeter) Follow() (string, error) {
	if m.follow == nil {
		return "", nil
	}
	return m.follow()
}

// counter is the fakeMeter as a command hands it to Run.
func (m *fakeMeter) counter() *Counter[uint64] {
	set := metrics.Set[uint64]{All: []metrics.Metric[uint64]{{
		Name: "xdpcap_fake_total", Help: "Looks, by ten.",
		Values: func(now uint64, send metrics.SendValue) { send(float64(now)) },
	}}}
	return newCounter(m, set, func(i meter.Interval[uint64]) *fakeReport { return &fakeReport{newIntervalKeys(i), i.Now, i} })
}

type fakeReport struct {
	IntervalKeys
	Value uint64 `json:"value"`
	of    meter.Interval[uint64]
}

func (r *fakeReport) WriteTable(w io.Writer) {
	fmt.Fprintln(w, r.Value, r.Value-r.of.Before, meter.PerSecond(r.of.Before, r.Value, r.of.Took))
}

func newCounted(all ...*Counter[uint64]) (list []*counted) {
	for _, c := range all {
		list = append(list, &counted{AnyCounter: c})
	}
	return list
}

func runFake(ctx context.Context, o Options, m *fakeMeter, scr *frame.Screen) (string, error) {
	var out bytes.Buffer
	if m.began.IsZero() {
		m.began = time.Now()
	}
	r := &counterRun{o: &o, counted: newCounted(m.counter()), out: &out, messages: &m.messages, screen: scr}
	err := r.run(ctx)
	return out.String(), err
}

// Each block has the difference between two snapshots, and the totals are those of the whole run.
func TestCountersBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := func(after time.Duration) string { return time.Now().Add(after).Format("15:04:05.000") }
		first, second := clock(2*time.Second), clock(4*time.Second)
		got, err := runFake(t.Context(), Options{interval: 2 * time.Second, count: 2}, &fakeMeter{}, nil)
		want := first + "  fake0, over 2.000 s\n10 10 5\n\n" +
			second + "  fake0, rates over 2.000 s, totals over 4.000 s\n20 10 5\n\n" +
			"total  fake0, over 4.000 s\n20 20 5\n"
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

// One object per line, the first one for the time since counting began, which may be before the
// run, and the last one for the interval that the signal cut short, so that nothing is missing.
func TestCountersJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		m := &fakeMeter{began: time.Now().Add(-3 * time.Second)}
		got, err := runFake(ctx, Options{interval: time.Second, JSON: true}, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for line := range strings.Lines(got) {
			var o map[string]any
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if _, err := time.Parse(time.RFC3339Nano, o["time"].(string)); err != nil {
				t.Error(err)
			}
			seen = append(seen, fmt.Sprint(o["interval_s"], o["elapsed_s"], o["value"]))
		}
		if diff := cmp.Diff([]string{"4 4 10", "1 5 20", "0.5 5.5 30"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCountersError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if _, err := runFake(t.Context(), Options{interval: time.Second}, &fakeMeter{fail: broken}, nil); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

// A run notices that the counted program has gone, however long the interval is, and prints the
// counts until then.
func TestCountersEnd(t *testing.T) {
	t.Parallel()
	gone := errors.New("rx0 is gone")
	for _, asJSON := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &fakeMeter{began: time.Now()}
			m.follow = func() (string, error) {
				if time.Since(m.began) < 90*time.Second {
					return "", nil
				}
				return "", gone
			}
			got, err := runFake(t.Context(), Options{interval: time.Hour, JSON: asJSON}, m, nil)
			want := "total  fake0, over 90.000 s\n10 10 "
			if asJSON {
				want = `"interval_s":90,"elapsed_s":90,"value":10}`
			}
			if !errors.Is(err, gone) || !strings.Contains(got, want) || time.Since(m.began) > 92*time.Second {
				t.Errorf("after %v: %v, printed %s", time.Since(m.began), err, got)
			}
		})
	}
}

// If counting ends on one of several interfaces, a message says so at once and again at the end,
// and the others go on.
func TestCountersOneEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var messages, out bytes.Buffer
		var all []*Counter[uint64]
		for i := range 3 {
			m := &fakeMeter{name: fmt.Sprintf("fake%d", i), began: time.Now()}
			m.follow = func() (string, error) {
				if time.Since(m.began) > time.Duration(10*(i+1))*time.Second {
					return "", fmt.Errorf("%s has ended", m.name)
				}
				return "", nil
			}
			all = append(all, m.counter())
		}
		r := &counterRun{o: &Options{interval: time.Hour}, counted: newCounted(all...), out: &out, messages: &messages}
		err := r.run(t.Context())
		if want := "fake0 has ended\nfake1 has ended\nfake2 has ended"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if diff := cmp.Diff("xdpcap: fake0 has ended\nxdpcap: fake1 has ended\n", messages.String()); diff != "" {
			t.Error(diff)
		}
		if n := strings.Count(out.String(), ", over 31.000 s\n10 10 "); n != 3 {
			t.Errorf("%d totals of 3: %s", n, out.String())
		}
	})
}

// If no program runs any more, a command that exports its counters says so once and waits. Any
// other command ends.
func TestCountersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &fakeMeter{began: time.Now()}
		m.follow = func() (string, error) {
			switch after := time.Since(m.began).Seconds(); {
			case after < 2 || after > 8:
				return "", nil
			case after < 7:
				return "", message.Errorf(meter.ErrNotCounting, "a (id 1) does not run on rx0 any more")
			default:
				return "rx0 runs b (id 2) in place of a (id 1)", nil
			}
		}
		if _, err := runFake(t.Context(), Options{interval: time.Hour}, m, nil); !errors.Is(err, meter.ErrNotCounting) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := runFake(ctx, Options{interval: time.Hour, listen: ":9432"}, m, nil); err != nil {
			t.Error(err)
		}
		want := "xdpcap: a (id 1) does not run on rx0 any more: waiting for a program\n" +
			"xdpcap: rx0 runs b (id 2) in place of a (id 1)\n"
		if diff := cmp.Diff(want, m.messages.String()); diff != "" {
			t.Error(diff)
		}
	})
}

// On a terminal a block is where the one before was, cut to the screen in both directions. A job in
// the background leaves the screen to the shell, and in the foreground begins with a clear one.
func TestCountersScreen(t *testing.T) {
	t.Parallel()
	ours := true
	s := &frame.Screen{Size: func() (int, int, error) { return 10, 4, nil }, IsOurs: func() bool { return ours }}
	const back, text = "\r\x1b[3A", "0123456789\x1b[K\n012345678…\x1b[K\n… 2 more …\x1b[K\n\x1b[J"
	const block = "0123456789\n0123456789a\n2\n3\n"
	for i, want := range []string{text, back + text, "", text, back + text} {
		ours = want != ""
		if diff := cmp.Diff(want, string(s.Redraw([]byte(block)))); diff != "" {
			t.Errorf("block %d: %s", i, diff)
		}
	}
	if got, want := string(s.Last([]byte(block))), back+"\x1b[J"+block; got != want {
		t.Errorf("the last block: %q, want %q", got, want)
	}
	s.Leave()
	for i, got := range []string{string(s.Redraw([]byte("a"))), string((&frame.Screen{}).Last([]byte(block)))} {
		if want := []string{"a\x1b[K\n\x1b[J", block}[i]; got != want {
			t.Errorf("below what is there: %q, want %q", got, want)
		}
	}
}

// A message stays between the tables: the next one does not replace the one before the message. The
// totals take the place of the last table.
func TestCountersNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var both bytes.Buffer // they are one terminal
		m := &fakeMeter{began: time.Now()}
		m.follow = func() (string, error) { return "the program is another one\x1b", nil }
		s := &frame.Screen{Size: func() (int, int, error) { return 80, 24, nil }}
		r := &counterRun{o: &Options{interval: 2 * time.Second, count: 3}, counted: newCounted(m.counter()),
			out: &both, messages: &both, screen: s}
		r.tell("metrics at nowhere")
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		const table = `\S+  fake0, .*\x1b\[K\n\d+ \d+ \d+\x1b\[K\n\x1b\[J`
		want := `^xdpcap: metrics at nowhere\nxdpcap: the program is another one\\x1b\n` + table +
			`\r\x1b\[2A` + table + `\r\x1b\[2A` + table + `\r\x1b\[2A\x1b\[Jtotal  fake0, over 6.000 s\n\d+ \d+ \d+\n$`
		if got := both.String(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q, want %s", got, want)
		}
	})
}

// --duration ends a run after whole intervals, and -q prints only the totals. Both print everything
// that was counted.
func TestCountersDuration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		o      Options
		blocks int
		total  string
	}{
		{Options{}, 3, "total  fake0, over 3.000 s\n30 30 10\n"},
		{Options{JSON: true}, 3, `"interval_s":1,"elapsed_s":3,"value":30}` + "\n"},
		{Options{quiet: true}, 0, "total  fake0, over 3.000 s\n10 10 3.3333333333333335\n"},
		{Options{quiet: true, JSON: true}, 1, `"interval_s":3,"elapsed_s":3,"value":10}` + "\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.o.interval, test.o.Duration = time.Second, 3*time.Second
			if test.o.quiet {
				test.o.interval = time.Hour
			}
			got, err := runFake(t.Context(), test.o, &fakeMeter{}, nil)
			blocks := strings.Count(got, "\n\n")
			if test.o.JSON {
				blocks = strings.Count(got, "\n")
			}
			if err != nil || blocks != test.blocks || !strings.HasSuffix(got, test.total) {
				t.Errorf("%+v: %v, %d blocks, want %d, and at the end %s:\n%s", test.o, err, blocks, test.blocks, test.total, got)
			}
		})
	}
}

// A title is cut to the window, whatever the names in it are, and in a pipe never.
func TestTitleWidth(t *testing.T) {
	t.Parallel()
	c := (&fakeMeter{name: strings.Repeat("long", 40)}).counter()
	for columns, want := range map[int]int{100: 100, 0: len("total  , over 3600.000 s") + 160} {
		var b bytes.Buffer
		WriteBlock(&frame.Page{Writer: &b, Columns: columns}, "total", c.String(), &fakeReport{IntervalKeys: IntervalKeys{Interval: 3600, Elapsed: 3600}})
		title, _, _ := strings.Cut(b.String(), "\n")
		if n := utf8.RuneCountInString(title); n != want {
			t.Errorf("%d columns of %d: %s", n, want, title)
		}
	}
}
