package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// The buckets of the exported histogram: powers of two from 32 ns to 17 ms. What is exported is coarse on
// purpose: each bucket of each verdict is a series.
const firstBucketBits, lastBucketBits = 5, 24

type latencyMetrics struct{ times, lost *prometheus.Desc }

func newLatencyMetrics(iface string) *latencyMetrics {
	on := prometheus.Labels{"interface": iface}
	return &latencyMetrics{
		times: prometheus.NewDesc("xdpcap_latency_seconds", "Run time of the XDP program by its verdict.", []string{"verdict"}, on),
		lost:  prometheus.NewDesc("xdpcap_latency_lost_total", "Measurements that did not get through the perf ring.", nil, on),
	}
}

func (m *latencyMetrics) descs() []*prometheus.Desc { return []*prometheus.Desc{m.times, m.lost} }

func (m *latencyMetrics) collect(c meter.LatencyCounts, ch chan<- prometheus.Metric) {
	for v := range c.Verdicts {
		h := &c.Verdicts[v]
		buckets := make(map[float64]uint64)
		for b := firstBucketBits; b <= lastBucketBits; b++ {
			// Values are whole nanoseconds: less than the power of two is the same as up to one below it.
			buckets[float64(uint64(1)<<b-1)/1e9] = h.Below(time.Duration(1) << b)
		}
		ch <- prometheus.MustNewConstHistogram(m.times, h.Count, h.Sum.Seconds(), buckets, verdictName(v))
	}
	ch <- counter(m.lost, c.Lost)
}

func (l *latency) describe() []*prometheus.Desc { return l.metrics.descs() }

func (l *latency) collect(c meter.LatencyCounts, ch chan<- prometheus.Metric) {
	l.metrics.collect(c, ch)
}

type runTimeMetrics struct{ runs, seconds *prometheus.Desc }

func newRunTimeMetrics(iface string) *runTimeMetrics {
	on := prometheus.Labels{"interface": iface}
	return &runTimeMetrics{
		runs:    prometheus.NewDesc("xdpcap_program_runs_total", "Runs of the XDP program, by the kernel's counters.", nil, on),
		seconds: prometheus.NewDesc("xdpcap_program_run_seconds_total", "Run time of the XDP program, by the kernel's counters.", nil, on),
	}
}

func (m *runTimeMetrics) descs() []*prometheus.Desc { return []*prometheus.Desc{m.runs, m.seconds} }

func (m *runTimeMetrics) collect(c meter.RuntimeCounts, ch chan<- prometheus.Metric) {
	ch <- counter(m.runs, c.Runs)
	ch <- prometheus.MustNewConstMetric(m.seconds, prometheus.CounterValue, c.Time.Seconds())
}

func (r *runTime) describe() []*prometheus.Desc { return r.metrics.descs() }

func (r *runTime) collect(c meter.RuntimeCounts, ch chan<- prometheus.Metric) {
	r.metrics.collect(c, ch)
}
