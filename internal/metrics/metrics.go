// Package metrics serves a command's counters to Prometheus.
package metrics

import (
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Set has the metrics that a command exports to Prometheus. S is a snapshot of its counters.
type Set[S any] struct {
	Labels map[string]string // of all metrics, with their values; "" = no such label
	All    []Metric[S]
}

// Count adds a counter.
func (s *Set[S]) Count(name, help string, labels []string, values func(snapshot S, send SendValue)) {
	s.All = append(s.All, Metric[S]{Name: name, Help: help, Labels: labels, Values: values})
}

// Sum adds a counter without labels.
func (s *Set[S]) Sum(name, help string, value func(snapshot S) float64) {
	s.Count(name, help, nil, func(snapshot S, send SendValue) { send(value(snapshot)) })
}

// Tallies adds a counter of packets, xdpcap_NAME_packets_total, and one of their bytes,
// xdpcap_NAME_bytes_total. name is that of the first. each completes the help text: "by protocol".
func (s *Set[S]) Tallies(name, each string, labels []string, values func(snapshot S, send func(meter.Tally, ...string))) {
	s.Count(name, "Packets "+each+".", labels, func(snapshot S, send SendValue) {
		values(snapshot, func(t meter.Tally, labels ...string) { send(float64(t.Packets), labels...) })
	})
	s.Count(strings.Replace(name, "_packets_", "_bytes_", 1), "Bytes of packets "+each+".", labels, func(snapshot S, send SendValue) {
		values(snapshot, func(t meter.Tally, labels ...string) { send(float64(t.Bytes), labels...) })
	})
}

// A Metric has a name, and a function that reads its values from a snapshot: Values for a counter
// or, with Gauge, a gauge; Times for a histogram of seconds. The function calls send once for each
// existing combination of label values, which it passes in the order of Labels.
type Metric[S any] struct {
	Name, Help string
	Labels     []string
	Gauge      bool
	Values     func(snapshot S, send SendValue)
	Times      func(snapshot S, send SendTimes)
}

// SendValue sends a value of a counter or a gauge, and SendTimes one of a histogram, with the
// values of the metric's labels.
type (
	SendValue func(value float64, labels ...string)
	SendTimes func(h *meter.Histogram, labels ...string)
)

// scrapeAge is the maximum age of the snapshot that answers a scrape, so that many scrapes do not
// cost more than ten readings per second.
const scrapeAge = 100 * time.Millisecond

// A Collector collects a command's metrics for Prometheus.
type Collector[S any] struct {
	read    func() (S, error)
	metrics []Metric[S]
	descs   []*prometheus.Desc // one for each metric

	mu       sync.Mutex // held while reading, so that concurrent scrapes share one reading
	ended    bool       // no more snapshots are read
	readAt   time.Time
	snapshot S
	err      error
}

// NewRegistry returns a registry of the metrics of several collectors, whose constant labels
// differ.
func NewRegistry(collectors ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collectors...)
	return r
}

// NewCollector makes a collector of metrics of the snapshots that read returns. Only one goroutine
// calls read at a time.
func NewCollector[S any](read func() (S, error), m Set[S]) *Collector[S] {
	c := &Collector[S]{read: read, metrics: m.All}
	constant := make(prometheus.Labels)
	for name, value := range m.Labels {
		if value != "" {
			constant[name] = labelValue(value)
		}
	}
	for _, one := range m.All {
		c.descs = append(c.descs, prometheus.NewDesc(one.Name, one.Help, one.Labels, constant))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It reads a new snapshot if the last one is older than
// scrapeAge.
func (c *Collector[S]) Collect(ch chan<- prometheus.Metric) {
	snapshot, err := c.recent()
	if errors.Is(err, os.ErrClosed) {
		return
	}
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], err)
		return
	}
	for i, m := range c.metrics {
		d := c.descs[i]
		send := func(one prometheus.Metric, err error) {
			if err != nil {
				one = prometheus.NewInvalidMetric(d, err)
			}
			ch <- one
		}
		if m.Times != nil {
			m.Times(snapshot, func(h *meter.Histogram, labels ...string) { send(newHistogram(d, h, labelValues(labels))) })
			continue
		}
		kind := prometheus.CounterValue
		if m.Gauge {
			kind = prometheus.GaugeValue
		}
		m.Values(snapshot, func(value float64, labels ...string) {
			send(prometheus.NewConstMetric(d, kind, value, labelValues(labels)...))
		})
	}
}

// End waits for a reading in progress and prevents further ones. A scrape in progress may omit the
// metrics.
func (c *Collector[S]) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// recent returns a snapshot that is not older than scrapeAge, or os.ErrClosed after End.
func (c *Collector[S]) recent() (S, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		var nothing S
		return nothing, os.ErrClosed
	}
	if c.readAt.IsZero() || time.Since(c.readAt) >= scrapeAge {
		c.snapshot, c.err = c.read()
		c.readAt = time.Now()
	}
	return c.snapshot, c.err
}

// labelValue escapes a text as the value of a label: Prometheus accepts only UTF-8, and the name of
// an interface can have any bytes. Two different texts never result in the same value.
func labelValue(s string) string { return message.Escape(strings.ReplaceAll(s, `\`, `\\`)) }

func labelValues(values []string) []string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = labelValue(v)
	}
	return escaped
}
