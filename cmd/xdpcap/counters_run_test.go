package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A fakeMeter counts ten more with every snapshot.
type fakeMeter struct {
	value atomic.Uint64
	fail  error
	name  string // "" = fake0
}

func (m *fakeMeter) String() string {
	if m.name != "" {
		return m.name
	}
	return "fake0"
}

func (m *fakeMeter) Read() (uint64, error) { return m.value.Add(10), m.fail }
func (m *fakeMeter) Close() error          { return nil }

// counters is the fakeMeter as a command hands it to runCounters.
func (m *fakeMeter) counters() *counters[uint64] {
	return &counters[uint64]{
		openMeter: m,
		newReport: func(i meter.Interval[uint64]) report { return fakeReport(i) },
		metrics: metricSet[uint64]{all: []metric[uint64]{{
			name: "xdpcap_fake_total", help: "Looks, by ten.",
			values: func(now uint64, send sendValue) { send(float64(now)) },
		}}},
	}
}

type fakeReport meter.Interval[uint64]

func (r fakeReport) writeTable(w io.Writer) {
	fmt.Fprintln(w, r.Now, r.Now-r.Before, meter.PerSecond(r.Before, r.Now, r.Took))
}

func (r fakeReport) object() any {
	return struct {
		intervalKeys
		Value uint64 `json:"value"`
	}{newIntervalKeys(meter.Interval[uint64](r)), r.Now}
}

func runFake(ctx context.Context, o counterOptions, m *fakeMeter, scr *screen) (string, error) {
	var out bytes.Buffer
	r := &counterRun[uint64]{
		o: &o, counters: m.counters(), out: &out, screen: scr, gone: func() int { return 0 }, started: time.Now(),
	}
	err := r.run(ctx)
	return out.String(), err
}

// Each block has the difference between two snapshots, and the totals are over the whole run.
func TestCountersBlocks(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC // the clock of synctest begins at midnight UTC
	defer func() { time.Local = zone }()
	synctest.Test(t, func(t *testing.T) {
		got, err := runFake(t.Context(), counterOptions{interval: 2 * time.Second, count: 2}, &fakeMeter{}, nil)
		want := "00:00:02.000  fake0, over 2.000 s\n10 10 5\n\n" +
			"00:00:04.000  fake0, over 2.000 s\n20 10 5\n\n" +
			"total  fake0, over 4.000 s\n20 20 5\n"
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

// One object per line, the last one for the interval that the signal cut short, so that nothing is
// missing.
func TestCountersJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		got, err := runFake(ctx, counterOptions{interval: time.Second, json: true}, &fakeMeter{}, nil)
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
		if diff := cmp.Diff([]string{"1 1 10", "1 2 20", "0.5 2.5 30"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCountersError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if _, err := runFake(t.Context(), counterOptions{interval: time.Second}, &fakeMeter{fail: broken}, nil); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

// On a terminal the second block is where the first was, cut to the screen in both directions.
func TestCountersScreen(t *testing.T) {
	s := &screen{size: func() (int, int, error) { return 10, 4, nil }}
	block := []byte("0123456789\n0123456789a\n2\n3\n")
	const want = "0123456789\x1b[K\n012345678…\x1b[K\n… 2 more …\x1b[K\n\x1b[J"
	if diff := cmp.Diff("\x1b[H\x1b[2J"+want, string(s.redraw(block))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("\x1b[H"+want, string(s.redraw(block))); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := table{}
	tab.add("VERDICT", "PACKETS")
	tab.add("µ", "1")
	tab.add("redirected", "100000000")
	tab.write(&out)
	want := "VERDICT       PACKETS\nµ                   1\nredirected  100000000\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// A scrape takes a snapshot of its own and does not change what is printed.
func TestCountersListen(t *testing.T) {
	e, err := newExporter("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := (&fakeMeter{}).counters()
	e.serve(newRegistry(c.Read, c.metrics))
	defer e.close()
	for _, want := range []string{"xdpcap_fake_total 10\n", "xdpcap_fake_total 20\n"} {
		r, err := http.Get("http://" + e.listener.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if !strings.Contains(string(body), want) || !strings.Contains(string(body), "# TYPE xdpcap_fake_total counter") {
			t.Errorf("%s", body)
		}
	}
	if _, err := newExporter(e.listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "in use; give") {
		t.Error(err)
	}
	e.close()
	if _, err := http.Get("http://" + e.listener.Addr().String() + "/metrics"); err == nil {
		t.Error("it still listens")
	}
}
