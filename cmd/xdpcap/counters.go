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

	"github.com/xdpcap/xdpcap/internal/meter"
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
	nameVar(f, &o.listen, "listen", "", "serve the counters to Prometheus at http://`address`/metrics: 127.0.0.1:9432, :9432")
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
	newReport func(meter.Interval[S]) report
	metrics   metricSet[S]
}

// An openMeter is one of internal/meter's types.
type openMeter[S any] interface {
	// String says what is counted and how, for the title of a table: "rx0, XDP native".
	String() string
	// Began returns when counting began.
	Began() time.Time
	// Read may be called concurrently, because a scrape reads, too.
	Read() (S, error)
	// Follow looks whether what is counted is still there, and goes on with what has taken its
	// place; a notice says so. After an ErrNotCounting a later call may find something to count
	// again; any other error is final.
	Follow() (notice string, err error)
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

	c, err := open()
	if err != nil {
		return err
	}
	defer func() {
		if closing := c.Close(); err == nil {
			err = closing
		}
	}()
	exp.serve(newRegistry(c.Read, c.metrics))
	defer exp.close() // before the counters are closed, because a scrape reads them
	exp.announce(stderr)
	say(stderr, "listening on %v", c)
	r := &counterRun[S]{o: o, counters: c, out: os.Stdout, messages: stderr, screen: newScreen(os.Stdout)}
	return r.run(ctx)
}

// lookInterval is how often a counter command looks whether what it counts is still there.
const lookInterval = time.Second

// A counterRun prints a report for each interval.
type counterRun[S any] struct {
	o        *counterOptions
	counters *counters[S]
	out      io.Writer
	messages io.Writer
	screen   *screen // nil: not a terminal

	last meter.Interval[S]
	said string // the last message
}

// run returns nil when the end was asked for.
func (r *counterRun[S]) run(ctx context.Context) error {
	tick, look := time.NewTicker(r.o.interval), time.NewTicker(lookInterval)
	defer tick.Stop()
	defer look.Stop()
	for n := uint64(0); r.o.count == 0 || n < r.o.count; {
		select {
		case <-ctx.Done():
			return r.end(nil)
		case <-look.C:
			if err := r.look(); err != nil {
				return r.end(err)
			}
		case <-tick.C:
			n++
			if err := r.read(); err != nil {
				r.printTotals() // of the last snapshot; only the error of read is returned
				return err
			}
			if err := r.print(); err != nil {
				return err
			}
		}
	}
	return r.printTotals()
}

// look returns an error when the run is to end, because nothing is counted any more. A command that
// exports its counters waits then for a program, since what is deployed may be away for a while.
func (r *counterRun[S]) look() error {
	notice, err := r.counters.Follow()
	if errors.Is(err, meter.ErrNotCounting) && r.o.listen != "" {
		notice, err = err.Error()+": waiting for a program", nil
	}
	if notice != "" && notice != r.said {
		r.said = notice
		say(r.messages, "%s", notice)
	}
	return err
}

// end prints what was counted until now, and returns why the run has ended. The last interval, which
// is cut short, is printed for readers that add up JSON objects. A table is followed by the totals,
// which include it.
func (r *counterRun[S]) end(cause error) error {
	err := r.read()
	if err == nil && r.o.json {
		err = r.print()
	}
	if totals := r.printTotals(); err == nil {
		err = totals
	}
	if cause != nil {
		return cause
	}
	return err
}

// read takes the next snapshot.
func (r *counterRun[S]) read() error {
	now, err := r.counters.Read()
	if err != nil {
		return err
	}
	end := time.Now()
	r.last = r.last.Next(now, end, end.Sub(r.counters.Began()))
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
