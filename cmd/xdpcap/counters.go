package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// counterOptions are the flags that all counter commands have.
type counterOptions struct {
	interval time.Duration
	count    uint64 // intervals; 0 = until a signal
	json     bool
	listen   string // address of the metrics, "" = none
	perCPU   bool
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

func (o *counterOptions) register(f *pflag.FlagSet) {
	f.SortFlags = false
	durationVar(f, &o.interval, "interval", time.Second, "print once in this `time`: 200ms, 1s or just 1, 1m")
	f.Uint64Var(&o.count, "count", 0, "end after this many `intervals`; 0: with Ctrl-C")
	f.BoolVar(&o.json, "json", false, "print one JSON object per interval and line")
	f.StringVar(&o.listen, "listen", "", "serve the counters to Prometheus at http://`address`/metrics: 127.0.0.1:9432, :9432")
	f.BoolVar(&o.perCPU, "per-cpu", false, "count each CPU by itself")
}

func (o *counterOptions) check() error {
	if o.interval < minInterval {
		return fmt.Errorf("--interval %v: must be at least %v", o.interval, minInterval)
	}
	return nil
}

var errNoInterface = errors.New("which interface? -i NAME; xdpcap interfaces lists them")

// counters are the attached counters of one command, and how the command shows them. S is a
// snapshot of them, a type of internal/meter. It is cumulative since the counters were opened, and
// its zero value means that nothing was counted. All rates come from two snapshots, so that the
// kernel's counters need not be reset and several readers do not disturb each other.
type counters[S any] struct {
	openMeter[S]
	interfaces []int // indices; the command ends when one of them leaves
	newReport  func(meter.Interval[S]) report
	metrics    metricSet[S]
}

// An openMeter is one of internal/meter's types.
type openMeter[S any] interface {
	// String says what is counted and how, for the title of a table: "rx0, XDP native".
	String() string
	// Read may be called concurrently, because a scrape reads, too.
	Read() (S, error)
	// Close detaches everything. It is called once, after the last Read.
	Close() error
}

// runCounters runs a counter command, from the check of its privileges to its totals. It calls open
// when everything else is ready, so that nothing is attached if something else is wrong.
func runCounters[S any](o *counterOptions, g guard, open func() (*counters[S], error)) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ctx, err := begin(g)
	if err != nil {
		return err
	}
	exp, err := newExporter(o.listen)
	if err != nil {
		return err
	}
	defer exp.close()

	started := time.Now()
	c, err := open()
	if err != nil {
		return err
	}
	defer func() {
		if closing := c.Close(); err == nil {
			err = closing
		}
	}()
	watch, err := xdp.Watch(c.interfaces)
	if err != nil {
		return err
	}
	defer watch.Close()
	exp.serve(newRegistry(c.Read, c.metrics))
	defer exp.close() // before the counters are closed, because a scrape reads them
	exp.announce(stderr)
	say(stderr, "listening on %v", c)
	r := &counterRun[S]{o: o, counters: c, out: os.Stdout, screen: newScreen(os.Stdout), gone: watch.Gone, started: started}
	return r.run(ctx)
}

// A counterRun prints a report for each interval.
type counterRun[S any] struct {
	o        *counterOptions
	counters *counters[S]
	out      io.Writer
	screen   *screen    // nil: not a terminal
	gone     func() int // index of an interface that has left, or 0
	started  time.Time

	last meter.Interval[S]
}

// run returns nil when the end was asked for.
func (r *counterRun[S]) run(ctx context.Context) error {
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
				r.printTotals() // of the last snapshot; only the error of read is returned
			}
			return err
		}
		// The last interval, which a signal has cut short, is printed for readers that add up JSON
		// objects. A table is followed by the totals, which include it.
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
				"start again when it is back", r.counters)
		}
	}
	return r.printTotals()
}

// read takes the next snapshot.
func (r *counterRun[S]) read() error {
	now, err := r.counters.Read()
	if err != nil {
		return err
	}
	end := time.Now()
	r.last = r.last.Next(now, end, end.Sub(r.started))
	return nil
}

func (r *counterRun[S]) print() error {
	if r.o.json {
		return explainPrint(json.NewEncoder(r.out).Encode(r.counters.newReport(r.last).object()))
	}
	block := r.block(r.last.End.Format("15:04:05.000"), r.last)
	if r.screen != nil {
		block = r.screen.redraw(block)
	} else {
		block = append(block, '\n')
	}
	_, err := r.out.Write(block)
	return explainPrint(err)
}

// printTotals shows the whole run as one interval. JSON objects have these numbers already.
func (r *counterRun[S]) printTotals() error {
	if r.o.json {
		return nil
	}
	block := r.block("total", r.last.Whole())
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
