// Package counters has the commands that count in the kernel: stats, count, latency, monitor and
// drops. All of them open counters, read them in intervals, print and export them, and follow the
// counted programs.
package counters

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// A Counter is an open meter with the reports and the metrics of its command. S is a snapshot of
// the meter, a type of internal/meter. It is cumulative since the meter was opened, and its zero
// value means that no packet was counted. All rates come from two snapshots, so that the kernel's
// counters need not be reset and several readers do not disturb each other.
type Counter[S any] struct {
	kernelMeter[S]
	Metrics  metrics.Set[S]
	Interval *meter.Interval[S] // up to the last call of Next
	report   func(meter.Interval[S]) Report
}

// AnyCounter is a Counter with any type of snapshots.
type AnyCounter interface {
	openMeter
	// Next takes the next snapshot. It must not be called concurrently.
	Next() error
	// LastReport is the report of the last interval, WholeReport that of the time from the opening
	// of the meter to the last snapshot.
	LastReport() Report
	WholeReport() Report
	// ReportSince takes a snapshot, and reports it as counted since a time. It may be called
	// concurrently.
	ReportSince(began time.Time) (Report, error)
	// Collector collects the metrics.
	Collector() Collector
}

// A Collector stops reading the meter at End, before the meter is closed.
type Collector interface {
	prometheus.Collector
	End()
}

// A kernelMeter is one of internal/meter's types.
type kernelMeter[S any] interface {
	openMeter
	// Began returns when counting began.
	Began() time.Time
	// Read may be called concurrently, because a scrape reads, too.
	Read() (S, error)
}

// An openMeter has the methods of all meters that do not depend on their snapshots.
type openMeter interface {
	// String is the title of a table: what is counted and how, "rx0, XDP native".
	String() string
	// Follow checks that the counted program is still attached, and continues with one that has
	// replaced it; notice reports that. After an ErrNotCounting a later call may find a program to
	// count again; any other error is final.
	Follow() (notice string, err error)
	// Capabilities are the numbers of the capabilities that Follow and Close need later.
	Capabilities() []int
	// Close detaches everything. It is called once, after the last Read.
	Close() error
}

// newCounter returns the counter of a meter that is open.
func newCounter[S any, R Report](m kernelMeter[S], set metrics.Set[S], report func(meter.Interval[S]) R) *Counter[S] {
	return &Counter[S]{m, set, new(meter.Interval[S]), func(i meter.Interval[S]) Report { return report(i) }}
}

func (c *Counter[S]) Next() error {
	now, err := c.Read()
	if err == nil {
		end := time.Now()
		*c.Interval = c.Interval.Next(now, end, end.Sub(c.Began()))
	}
	return err
}

func (c *Counter[S]) LastReport() Report { return c.report(*c.Interval) }

func (c *Counter[S]) WholeReport() Report { return c.report(c.Interval.Whole()) }

func (c *Counter[S]) ReportSince(began time.Time) (Report, error) {
	now, err := c.Read()
	if err != nil {
		return nil, err
	}
	end := time.Now()
	return c.report(meter.Interval[S]{}.Next(now, end, end.Sub(began))), nil
}

func (c *Counter[S]) Collector() Collector { return metrics.NewCollector(c.Read, c.Metrics) }
