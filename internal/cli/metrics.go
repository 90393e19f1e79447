package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/escape"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A metricSet is what a command exports to Prometheus. S is a snapshot of its counters.
type metricSet[S any] struct {
	labels map[string]string // with their values; all metrics have them
	all    []metric[S]
}

// A metric is one name, and how its values are found in a snapshot: by values, which makes it a
// counter unless it is a gauge, or by times, which makes it a histogram of seconds. Each function
// calls send once for every combination of labels that there is, with the values of the labels in
// their order.
type metric[S any] struct {
	name, help string
	labels     []string
	gauge      bool
	values     func(snapshot S, send sendValue)
	times      func(snapshot S, send sendTimes)
}

type (
	sendValue func(value float64, labels ...string)
	sendTimes func(h *meter.Histogram, labels ...string)
)

// The buckets of exported histograms are powers of two from 32 ns to 17 ms. There are few of them,
// because each bucket of each verdict is a series that Prometheus has to store.
const firstBucketBits, lastBucketBits = 5, 24

// scrapeAge is how old the reading may be that a scrape is answered from, so that many scrapes do
// not cost more than ten readings per second.
const scrapeAge = 100 * time.Millisecond

// A collector hands a command's metrics to Prometheus.
type collector[S any] struct {
	read    func() (S, error)
	metrics []metric[S]
	descs   []*prometheus.Desc // one for each metric

	mu       sync.Mutex // held while reading: scrapes that come meanwhile share what is read
	ended    bool       // nothing is read any more
	readAt   time.Time
	snapshot S
	err      error
}

// newRegistry has the metrics of several collectors, whose constant labels differ.
func newRegistry(collectors ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collectors...)
	return r
}

func newCollector[S any](read func() (S, error), m metricSet[S]) *collector[S] {
	c := &collector[S]{read: read, metrics: m.all}
	constant := make(prometheus.Labels)
	for name, value := range m.labels {
		constant[name] = labelValue(value)
	}
	for _, one := range m.all {
		c.descs = append(c.descs, prometheus.NewDesc(one.name, one.help, one.labels, constant))
	}
	return c
}

func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
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
		if m.times != nil {
			m.times(snapshot, func(h *meter.Histogram, labels ...string) { send(newHistogram(d, h, labelValues(labels))) })
			continue
		}
		kind := prometheus.CounterValue
		if m.gauge {
			kind = prometheus.GaugeValue
		}
		m.values(snapshot, func(value float64, labels ...string) {
			send(prometheus.NewConstMetric(d, kind, value, labelValues(labels)...))
		})
	}
}

// end returns when nothing is read any more. A scrape that is under way leaves the metrics out.
func (c *collector[S]) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// recent returns a snapshot that is not older than scrapeAge, or os.ErrClosed after end.
func (c *collector[S]) recent() (S, error) {
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

// labelValue makes a label of what may not be UTF-8, which Prometheus refuses: the name of an
// interface can have any bytes. Two names are never the same label.
func labelValue(s string) string { return escape.Text(strings.ReplaceAll(s, `\`, `\\`)) }

func labelValues(values []string) []string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = labelValue(v)
	}
	return escaped
}

func newHistogram(d *prometheus.Desc, h *meter.Histogram, labels []string) (prometheus.Metric, error) {
	buckets := make(map[float64]uint64)
	for b := firstBucketBits; b <= lastBucketBits; b++ {
		// A bucket of Prometheus includes its bound, but Below counts only times below it. Times
		// are whole nanoseconds, so the bound is one nanosecond less.
		buckets[float64(uint64(1)<<b-1)/1e9] = h.Below(time.Duration(1) << b)
	}
	return prometheus.NewConstHistogram(d, h.Count, h.Sum.Seconds(), buckets, labels...)
}

// An exporter serves the metrics of a command over HTTP. A nil one does nothing.
type exporter struct {
	listener net.Listener
	server   *http.Server
	finished chan struct{} // closed when the server has ended
}

// newExporter listens on an address. It returns nil where that is empty.
func newExporter(address string) (*exporter, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w; give the address of this machine and a port that is free, "+
			"like 127.0.0.1:9432", address, err)
	}
	return &exporter{listener: l}, nil
}

// serve begins to answer scrapes.
func (e *exporter) serve(g prometheus.Gatherer) {
	if e == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	e.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		ConnState:         new(connections).note,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // it would say what a stranger sent
	}
	e.finished = make(chan struct{})
	go func() {
		defer close(e.finished)
		e.server.Serve(e.listener) // returns when closed
	}()
}

// connections bounds the file descriptors that HTTP uses. It closes the connection on which nothing
// has happened for longest when there are too many: a scrape takes milliseconds.
type connections struct {
	mu  sync.Mutex
	all []net.Conn // in the order in which something has happened on them
}

const maxConnections = 16

// note is for http.Server.ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other net.Conn) bool { return other == conn })
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	if c.all = append(c.all, conn); len(c.all) > maxConnections {
		c.all[0].Close()
		c.all = c.all[1:]
	}
}

// String says where the metrics are.
func (e *exporter) String() string {
	text := fmt.Sprintf("metrics at http://%v/metrics", e.listener.Addr())
	if a, ok := e.listener.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		text += " by every address of this machine"
	}
	return text
}

// close gives a scrape a second to end, and returns when no goroutine is left. Further calls do
// nothing.
func (e *exporter) close() {
	if e == nil {
		return
	}
	if e.server == nil {
		e.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.server.Shutdown(ctx) != nil {
		e.server.Close()
	}
	<-e.finished
}
