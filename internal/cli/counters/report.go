package counters

import (
	"io"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Report is printed by a counter command for each interval: as a table, or as an object of JSON.
// It embeds IntervalKeys.
type Report interface {
	WriteTable(w io.Writer) // whole lines, as wide as frame.PageOf has room
	interval() *IntervalKeys
}

// A joiner is a report that shows more if others of the same interval are printed with it.
type joiner interface{ Join(all []Report) }

// Joined lets the reports of one interval join each other.
func Joined(all []Report) []Report {
	for _, one := range all {
		if j, ok := one.(joiner); ok {
			j.Join(all)
		}
	}
	return all
}

// An amount is a report of an interface with the sum since the beginning, and its rate in the
// interval.
type amount interface {
	amount() (all uint64, rate float64)
}

// IntervalKeys are the keys that the JSON objects of all counter commands have.
type IntervalKeys struct {
	Time     time.Time `json:"time"`       // end of the interval
	Interval float64   `json:"interval_s"` // the time of the rates, in seconds
	Elapsed  float64   `json:"elapsed_s"`  // the time of the cumulative counters, in seconds
}

func (k *IntervalKeys) interval() *IntervalKeys { return k }

func newIntervalKeys[S any](i meter.Interval[S]) IntervalKeys {
	return IntervalKeys{Time: i.End.UTC(), Interval: i.Took.Seconds(), Elapsed: i.Elapsed.Seconds()}
}

// NewRateTable returns a table whose lines are RateCells, with these titles for their names.
func NewRateTable(titles ...string) *frame.Table {
	t := &frame.Table{Left: len(titles) - 1}
	t.Add(RateTitles(titles...)...)
	return t
}

// RateTitles are the titles of RateCells.
func RateTitles(names ...string) []string {
	return append(names, "PACKETS", "BYTES", "PACKETS/S", "BIT/S")
}

// RateCells are a line of a table: the names, then the rate.
func RateCells(r meter.Rate, names ...string) []string {
	return append(names, strconv.FormatUint(r.Packets, 10), strconv.FormatUint(r.Bytes, 10),
		frame.Scaled(r.PacketsPerSecond), frame.Scaled(r.BitsPerSecond))
}

// verdictName is the name of the verdict of a slot, in tables, objects and metrics.
func verdictName(slot int) string { return xdp.Verdict(slot).SlotName() }

// eachCPU calls f with the sum of all CPUs. With --per-cpu it calls f for each CPU whose counters
// are not zero, with its number as text.
func eachCPU[T comparable](o *Options, perCPU []T, sum T, f func(counted T, cpu ...string)) {
	if !o.perCPU {
		f(sum)
		return
	}
	var none T
	for cpu, counted := range perCPU {
		if counted != none {
			f(counted, strconv.Itoa(cpu))
		}
	}
}

func (r *CountReport) amount() (uint64, float64)   { return r.Total.Packets, r.Total.PacketsPerSecond }
func (r *StatsReport) amount() (uint64, float64)   { return r.Total.Packets, r.Total.PacketsPerSecond }
func (r *LatencyReport) amount() (uint64, float64) { return r.Total.Runs, r.Total.Interval.Rate }
func (r *RuntimeReport) amount() (uint64, float64) { return r.Runs, r.Rate }
