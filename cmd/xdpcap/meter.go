package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// meterOptions are the flags that all counter commands have.
type meterOptions struct {
	interval time.Duration
	count    uint64 // intervals; 0 = until a signal
	json     bool
	listen   string // address of the metrics, "" = none
	perCPU   bool
}

// minInterval keeps the reader from being the load that it measures.
const minInterval = 10 * time.Millisecond

func (o *meterOptions) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.DurationVar(&o.interval, "interval", time.Second, "print once in this `time`: 200ms, 1s, 1m")
	f.Uint64Var(&o.count, "count", 0, "end after this many `intervals`; 0: with Ctrl-C")
	f.BoolVar(&o.json, "json", false, "print one JSON object per interval and line")
	f.StringVar(&o.listen, "listen", "", "serve the counters to Prometheus at http://`address`/metrics: 127.0.0.1:9432, :9432")
	f.BoolVar(&o.perCPU, "per-cpu", false, "count each CPU by itself")
}

func (o *meterOptions) check() error {
	if o.interval < minInterval {
		return fmt.Errorf("--interval %v: must be at least %v", o.interval, minInterval)
	}
	return nil
}

// counters are those of one command while they are attached: a type of internal/meter as it is shown. S is
// a snapshot of them: cumulative since they were opened, and its zero value is that nothing was counted. All
// differences and rates are made here, in user space, from two snapshots: readers cannot steal from each other.
type counters[S any] interface {
	// String says what is counted and how, for the title of a table: "rx0, XDP native".
	String() string
	// interfaces are the indices of those without which there is nothing to count; may be none.
	interfaces() []int
	// read may be called concurrently: a scrape reads, too.
	read() (S, error)
	// reading makes a snapshot and the one before presentable.
	reading(span[S]) reading
	// describe lists all metrics that collect may send; their names end in _total.
	describe() []*prometheus.Desc
	collect(S, chan<- prometheus.Metric)
	// close detaches everything. It is called once, after the last read.
	close() error
}

// A span is what happened between two snapshots.
type span[S any] struct {
	before, now S
	at          time.Time     // of now, CLOCK_REALTIME
	took        time.Duration // from before to now, CLOCK_MONOTONIC
	elapsed     time.Duration // from the opening to now
}

// A reading is a span as it is printed.
type reading interface {
	table(w io.Writer) // whole lines of at most maxColumns
	json() any         // one object: embed moment
}

// A moment is the keys that the JSON objects of all counter commands have.
type moment struct {
	Time     time.Time `json:"time"`       // end of the interval
	Interval float64   `json:"interval_s"` // what the rates are over, in seconds
	Elapsed  float64   `json:"elapsed_s"`  // what the cumulative counters are over, in seconds
}

func (s *span[S]) moment() moment {
	return moment{Time: s.at.UTC(), Interval: s.took.Seconds(), Elapsed: s.elapsed.Seconds()}
}

// perSecond is the rate of a cumulative counter.
func perSecond(before, now uint64, took time.Duration) float64 {
	if took <= 0 || now < before {
		return 0
	}
	return float64(now-before) / took.Seconds()
}

// runMeter is a counter command from its privileges to its totals. It opens the counters when everything
// else is ready, so that whatever is wrong leaves nothing attached.
func runMeter[S any](o *meterOptions, open func() (counters[S], error)) (err error) {
	// A reader that goes away is an error of write, not the end of the process.
	signal.Ignore(unix.SIGPIPE)
	if err := o.check(); err != nil {
		return err
	}
	if err := support.CheckPrivileges(); err != nil {
		return err
	}
	// Before anything is attached: a signal must find its handler.
	ctx, cancel := untilSignal()
	defer cancel()
	exp, err := newExporter(o.listen)
	if err != nil {
		return err
	}
	defer exp.close()

	r := &meterRun[S]{o: o, out: os.Stdout, started: time.Now()}
	if r.meter, err = open(); err != nil {
		return err
	}
	defer func() {
		if closing := r.meter.close(); err == nil {
			err = closing
		}
	}()
	watch, err := xdp.Watch(r.meter.interfaces())
	if err != nil {
		return err
	}
	defer watch.Close()
	r.gone = watch.Gone
	r.screen = newScreen(os.Stdout)
	serve(exp, r.meter)
	defer exp.close() // before the meter is
	exp.announce(os.Stderr)
	fmt.Fprintf(os.Stderr, "xdpcap: listening on %v\n", r.meter)
	return r.run(ctx)
}

// A meterRun prints a meter's readings.
type meterRun[S any] struct {
	o       *meterOptions
	meter   counters[S]
	out     io.Writer
	screen  *screen    // nil: not a terminal
	gone    func() int // index of an interface that has left, or 0
	started time.Time

	last span[S]
}

// run returns nil when the end was asked for.
func (r *meterRun[S]) run(ctx context.Context) error {
	tick := time.NewTicker(r.o.interval)
	defer tick.Stop()
	for n := uint64(0); r.o.count == 0 || n < r.o.count; n++ {
		ended := false
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		if err := r.read(); err != nil {
			if n > 0 {
				r.printTotals() // of the last snapshot; the error is what matters
			}
			return err
		}
		// The cut interval matters only to who adds up lines: a table's totals have it anyway.
		if !ended || r.o.json {
			if err := r.print(); err != nil {
				return err
			}
		}
		if ended {
			break
		}
		if index := r.gone(); index != 0 {
			if err := r.printTotals(); err != nil {
				return err
			}
			return fmt.Errorf("the interface of %v was deleted or moved to another network namespace: "+
				"start again when it is back", r.meter)
		}
	}
	return r.printTotals()
}

// read takes the next snapshot.
func (r *meterRun[S]) read() error {
	now, err := r.meter.read()
	if err != nil {
		return err
	}
	at := time.Now()
	elapsed := at.Sub(r.started)
	r.last = span[S]{before: r.last.now, now: now, at: at, took: elapsed - r.last.elapsed, elapsed: elapsed}
	return nil
}

func (r *meterRun[S]) print() error {
	if r.o.json {
		return explainPrint(json.NewEncoder(r.out).Encode(r.meter.reading(r.last).json()))
	}
	block := r.block(r.last.at.Format("15:04:05.000"), r.last)
	if r.screen != nil {
		block = r.screen.redraw(block)
	} else {
		block = append(block, '\n')
	}
	_, err := r.out.Write(block)
	return explainPrint(err)
}

// printTotals shows the whole run as one interval. A JSON object has had these numbers all along.
func (r *meterRun[S]) printTotals() error {
	if r.o.json {
		return nil
	}
	whole := r.last
	var zero S
	whole.before, whole.took = zero, whole.elapsed
	block := r.block("total", whole)
	if r.screen != nil {
		block = append([]byte{'\n'}, block...)
	}
	_, err := r.out.Write(block)
	return explainPrint(err)
}

func explainPrint(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return stdout.explain(err)
	}
	if err != nil {
		return fmt.Errorf("print to standard output: %w", err)
	}
	return nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
