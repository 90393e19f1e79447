package metrics

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// times is a collector of one histogram, of these times.
func times(all ...time.Duration) *Collector[meter.Histogram] {
	return NewCollector(func() (h meter.Histogram, err error) {
		for _, d := range all {
			h.Observe(d)
		}
		return h, nil
	}, Set[meter.Histogram]{All: []Metric[meter.Histogram]{{
		Name: "xdpcap_fake_seconds", Help: "Of nothing.",
		Times: func(h meter.Histogram, send SendTimes) { send(&h) },
	}}})
}

// nativeCounts returns the runs of each native bucket by its number, as the format of Prometheus
// has them: spans of buckets, and the difference of each to the one before.
func nativeCounts(h *dto.Histogram) map[int]int64 {
	counts := make(map[int]int64)
	at, next, n := 0, 0, int64(0)
	for _, span := range h.PositiveSpan {
		at += int(span.GetOffset())
		for range span.GetLength() {
			n += h.PositiveDelta[next]
			counts[at] = n
			at, next = at+1, next+1
		}
	}
	return counts
}

// Every time is in the native bucket for it, or in the next one where our own bucket reaches into
// both. The classic buckets are there as well.
func TestNativeHistogram(t *testing.T) {
	t.Parallel()
	all := []time.Duration{0, 0, 1, 2, 33, 100, 101, 1500, 20 * time.Millisecond, 3 * time.Second}
	families, err := NewRegistry(times(all...)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].Metric[0].Histogram
	if h.GetSampleCount() != uint64(len(all)) || h.GetZeroCount() != 2 || h.GetSchema() != 3 || len(h.Bucket) != lastBucketBits-firstBucketBits+1 {
		t.Errorf("%v", h)
	}
	if h.GetZeroThreshold() == 0 {
		t.Error("Prometheus takes it for a classic histogram while there are no runs")
	}
	counts, total := nativeCounts(h), int64(0)
	for _, n := range counts {
		total += n
	}
	if total != int64(len(all)-2) {
		t.Errorf("%d times are in native buckets, want %d", total, len(all)-2)
	}
	for _, d := range all[2:] {
		const give = 1.02
		first := int(math.Ceil(math.Log2(d.Seconds()/give) * 8))
		last := int(math.Ceil(math.Log2(d.Seconds()*give) * 8))
		if counts[first] == 0 && counts[last] == 0 {
			t.Errorf("%v is in none of the buckets %d to %d: %v", d, first, last, counts)
		}
	}
}

// Prometheus receives native buckets if it scrapes by protobuf, and classic ones as text. An empty
// histogram is exported, too.
func TestHistogramFormats(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, accept, want string
		all                []time.Duration
	}{
		{"text", "text/plain", `xdpcap_fake_seconds_bucket{le="3.1e-08"} 1`, []time.Duration{5, 100}},
		{"protobuf", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", "positive_delta:1", []time.Duration{5, 100}},
		{"empty", "text/plain", "xdpcap_fake_seconds_count 0", nil},
		{"empty, protobuf", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", "zero_threshold:", nil},
	} {
		e, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		e.Serve(NewRegistry(times(test.all...)))
		req, err := http.NewRequest("GET", "http://"+e.Address()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", test.accept)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		e.Close()
		text := strings.Join(strings.Fields(string(body)), " ")
		if compact := strings.ReplaceAll(text, ": ", ":"); err != nil || !strings.Contains(compact, test.want) && !strings.Contains(text, test.want) {
			t.Errorf("%s: no %q: %v, %s", test.name, test.want, err, body)
		}
	}
}
