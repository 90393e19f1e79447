package counters

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// LookInterval is how often a counter command checks that the counted programs and interfaces still
// exist.
const LookInterval = time.Second

// A counterRun prints a report of all counters for each interval.
type counterRun[S any] struct {
	o        *Options
	open     []opener[S]
	registry *prometheus.Registry
	counted  []*counted[S]
	out      io.Writer
	messages io.Writer
	screen   *frame.Screen // nil: not a terminal
	notes    []string      // the last messages: they are printed again with each table, which would hide them on a screen

	discovered *discovered // nil = the interfaces were named
}

// tell prints a message now, and from then on with the tables.
func (r *counterRun[S]) tell(message string) {
	const most = 4
	frame.Say(r.messages, "%s", message)
	r.notes = append(r.notes, message)
	r.notes = r.notes[max(len(r.notes)-most, 0):]
}

// counted are the counters of one interface, what was last read from them, and what was printed
// about them.
type counted[S any] struct {
	*Counter[S]
	last  meter.Interval[S]
	said  string
	ended error // why counting has ended; nil = it goes on

	index     int // of the interface; 0 = it was named
	name      string
	collector *metrics.Collector[S]
}

// begin opens and exports all counters of an interface, or none.
func (r *counterRun[S]) begin(index int, name string) error {
	var opened []*counted[S]
	for _, open := range r.open {
		c, err := open(name)
		if err == nil {
			one := &counted[S]{Counter: c, index: index, name: name, collector: metrics.NewCollector(c.Read, c.Metrics)}
			if err = r.registry.Register(one.collector); err == nil {
				opened = append(opened, one)
				continue
			}
			err = errors.Join(err, c.Close())
		}
		r.end(opened...)
		return err
	}
	r.counted = append(r.counted, opened...)
	return nil
}

// end closes counters. They are exported no more.
func (r *counterRun[S]) end(all ...*counted[S]) error {
	var errs []error
	for _, c := range all {
		r.registry.Unregister(c.collector)
		c.collector.End()
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// run returns nil if the end was asked for.
func (r *counterRun[S]) run(ctx context.Context) error {
	ctx, cancel := frame.ForDuration(ctx, r.o.Duration)
	defer cancel()
	tick, look := time.NewTicker(r.o.interval), time.NewTicker(LookInterval)
	defer tick.Stop()
	defer look.Stop()
	for n := uint64(0); r.o.count == 0 || n < r.o.count; {
		select {
		case <-ctx.Done():
			return r.finish()
		case <-look.C:
			if !r.look() {
				return r.finish()
			}
		case <-tick.C:
			n++
			if err := r.read(); err != nil {
				r.printTotals() // of the last snapshot; the error to return is that of read
				return err
			}
			if err := r.print(); err != nil {
				return err
			}
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < minInterval {
				return r.close() // the rest is no whole interval
			}
		}
	}
	return r.close()
}

// look says whether anything is still counted. If one interface ends, it prints that at once, and
// the others go on. A command that exports its counters waits where a program is missing, because a
// program may be away for a while when it is deployed.
func (r *counterRun[S]) look() (counting bool) {
	if r.discovered != nil {
		r.discover()
		return true
	}
	for _, c := range r.counted {
		if c.ended != nil {
			continue
		}
		notice, err := c.Follow()
		if errors.Is(err, meter.ErrNotCounting) && r.o.listen != "" {
			notice, err = err.Error()+": waiting for a program", nil
		}
		if notice != "" && notice != c.said {
			c.said = notice
			r.tell(notice)
		}
		c.ended = err
		if err == nil {
			counting = true
		}
	}
	for _, c := range r.counted {
		if counting && c.ended != nil && c.ended.Error() != c.said {
			c.said = c.ended.Error()
			r.tell(c.said)
		}
	}
	return counting
}

// finish prints what was counted since the last interval, and ends the run. A last interval that
// was cut short is printed only as JSON, for readers that add up the objects: after a table come
// the totals, which include it.
func (r *counterRun[S]) finish() error {
	err := r.read()
	whole := len(r.counted) > 0 && r.counted[0].last.Took > r.o.interval-minInterval // its tick came together with the end
	if err == nil && (r.o.JSON || whole) {
		err = r.print()
	}
	if closing := r.close(); closing != nil {
		return closing
	}
	return err
}

// close prints the totals and returns why counting has ended; nil if that was asked for.
func (r *counterRun[S]) close() error {
	printing := r.printTotals()
	var ended []error
	for _, c := range r.counted {
		if c.ended != nil {
			ended = append(ended, c.ended)
		}
	}
	if len(ended) > 0 {
		return errors.Join(ended...)
	}
	return printing
}

// read takes the next snapshots.
func (r *counterRun[S]) read() error {
	for _, c := range r.counted {
		now, err := c.Read()
		if err != nil {
			return err
		}
		end := time.Now()
		c.last = c.last.Next(now, end, end.Sub(c.Began()))
	}
	return nil
}

func (r *counterRun[S]) print() error {
	switch {
	case r.o.quiet:
		return nil
	case r.o.JSON:
		return r.printObjects(func(c *counted[S]) meter.Interval[S] { return c.last })
	}
	var block []byte
	if r.screen != nil {
		for _, note := range r.notes {
			block = append(block, escape.Text(note)+"\n"...)
		}
	}
	reports := r.reports(func(c *counted[S]) meter.Interval[S] { return c.last })
	for i, c := range r.counted {
		block = append(block, Block(c.last.End.Format("15:04:05.000"), c.String(), c.last, reports[i])...)
		if r.screen == nil {
			block = append(block, '\n')
		}
	}
	if r.screen != nil {
		block = r.screen.Redraw(block)
	}
	_, err := r.out.Write(block)
	return frame.ExplainPrint(err)
}

// reports are those of all counters, each of its interval.
func (r *counterRun[S]) reports(of func(*counted[S]) meter.Interval[S]) (all []Report) {
	for _, c := range r.counted {
		all = append(all, c.Report(of(c)))
	}
	return joined(all)
}

func (r *counterRun[S]) printObjects(of func(*counted[S]) meter.Interval[S]) error {
	e := escape.NewJSONEncoder(r.out)
	for _, c := range r.counted {
		if err := e.Encode(c.Report(of(c))); err != nil {
			return frame.ExplainPrint(err)
		}
	}
	return nil
}

// printTotals shows the whole run as one interval. JSON objects already have these numbers, unless
// none was printed.
func (r *counterRun[S]) printTotals() error {
	if r.o.JSON && !r.o.quiet {
		return nil
	}
	if r.o.JSON {
		return r.printObjects(func(c *counted[S]) meter.Interval[S] { return c.last.Whole() })
	}
	var block []byte
	reports := r.reports(func(c *counted[S]) meter.Interval[S] { return c.last.Whole() })
	for i, c := range r.counted {
		if r.screen != nil || i > 0 {
			block = append(block, '\n')
		}
		block = append(block, Block("total", c.String(), c.last.Whole(), reports[i])...)
	}
	_, err := r.out.Write(block)
	return frame.ExplainPrint(err)
}
