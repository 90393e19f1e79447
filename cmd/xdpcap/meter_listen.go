package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// An exporter serves a meter's counters to Prometheus. A nil one does nothing.
type exporter struct {
	listener net.Listener
	server   *http.Server
	finished chan struct{} // nil: not serving
}

// newExporter takes the address, and is nil where that is empty.
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

// serve answers each scrape with a snapshot of its own, whatever the interval of printing is.
func serve[S any](e *exporter, m counters[S]) {
	if e == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(m), promhttp.HandlerOpts{}))
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	e.finished = make(chan struct{})
	go func() {
		defer close(e.finished)
		e.server.Serve(e.listener) // returns when closed
	}()
}

func (e *exporter) announce(w io.Writer) {
	if e != nil {
		fmt.Fprintf(w, "xdpcap: metrics at http://%v/metrics\n", e.listener.Addr())
	}
}

// close lets a scrape end for a moment, and joins the goroutines. Further calls do nothing.
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

// A collector is a meter as Prometheus wants it.
type collector[S any] struct{ meter counters[S] }

func newRegistry[S any](m counters[S]) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector[S]{m})
	return r
}

func (c collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.meter.describe() {
		ch <- d
	}
}

func (c collector[S]) Collect(ch chan<- prometheus.Metric) {
	s, err := c.meter.read()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.meter.describe()[0], err)
		return
	}
	c.meter.collect(s, ch)
}

// counter is one value of a cumulative metric.
func counter(d *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}
