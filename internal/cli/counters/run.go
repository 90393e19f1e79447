package counters

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
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
	colored  bool

	discovery *Discovery // nil = the interfaces were named
}

// tell prints a message. On a terminal it stays between the tables.
func (r *counterRun[S]) tell(message string) {
	frame.Say(r.messages, "%s", message)
	if r.screen != nil {
		r.screen.Leave()
	}
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
		return frame.Untraced(err, name, r.o.untraced)
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
	if r.discovery != nil {
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
		var err error
		if c.last, err = c.Next(c.last); err != nil {
			return err
		}
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
	for _, one := range r.blocks("", func(c *counted[S]) meter.Interval[S] { return c.last }) {
		block = append(block, one...)
		if r.screen == nil {
			block = append(block, '\n')
		}
	}
	if r.screen != nil && block != nil {
		block = r.screen.Redraw(block)
	}
	_, err := r.out.Write(block)
	return frame.ExplainPrint(err)
}

// blocks are the tables of all counters, each of its interval. when is their time; "" = the end of
// the interval. Where interfaces come and go, the busiest are first, and those that counted nothing
// in the interval are one line together.
func (r *counterRun[S]) blocks(when string, of func(*counted[S]) meter.Interval[S]) (all [][]byte) {
	type table struct {
		*counted[S]
		Report
	}
	var tables []table
	var reports []Report
	sums, busy := make(map[int]uint64), make(map[int]bool) // of interfaces, by index
	for _, c := range r.counted {
		one := table{c, c.Report(of(c))}
		tables, reports = append(tables, one), append(reports, one.Report)
		if a, ok := one.Report.(amount); ok {
			n, rate := a.amount()
			sums[c.index] += n
			if rate > 0 {
				busy[c.index] = true
			}
		}
	}
	Joined(reports)
	add := func(print func(*frame.Page)) {
		var b bytes.Buffer
		page := &frame.Page{Writer: &b, Colored: r.colored}
		if r.screen != nil {
			page = r.screen.Page(&b, r.colored)
		}
		print(page)
		all = append(all, b.Bytes())
	}
	idle := 0
	if r.discovery != nil {
		slices.SortStableFunc(tables, func(a, b table) int { return cmp.Compare(sums[b.index], sums[a.index]) })
		tables = slices.DeleteFunc(tables, func(t table) bool { return !busy[t.index] })
		idle = len(sums) - len(busy)
	}
	for _, t := range tables {
		add(func(p *frame.Page) {
			WriteBlock(p, cmp.Or(when, t.last.End.Format(clock)), t.String(), of(t.counted), t.Report)
		})
	}
	switch {
	case idle > 0 && len(tables) > 0:
		add(func(p *frame.Page) { p.Line("and %d idle", idle) })
	case idle > 0:
		when = cmp.Or(when, r.counted[0].last.End.Format(clock))
		add(func(p *frame.Page) { p.Line("%s  %s", when, frame.Several(idle, "idle interface")) })
	}
	return all
}

const clock = "15:04:05.000"

func (r *counterRun[S]) printObjects(of func(*counted[S]) meter.Interval[S]) error {
	e := message.NewJSONEncoder(r.out)
	for _, c := range r.counted {
		if err := e.Encode(c.Report(of(c))); err != nil {
			return frame.ExplainPrint(err)
		}
	}
	return nil
}

// printTotals shows the whole run as one interval, on a terminal in place of the last table. JSON
// objects already have these numbers, unless none was printed.
func (r *counterRun[S]) printTotals() error {
	if r.o.JSON && !r.o.quiet {
		return nil
	}
	if r.o.JSON {
		return r.printObjects(func(c *counted[S]) meter.Interval[S] { return c.last.Whole() })
	}
	block := bytes.Join(r.blocks("total", func(c *counted[S]) meter.Interval[S] { return c.last.Whole() }), []byte("\n"))
	if r.screen != nil {
		block = r.screen.Last(block)
	}
	_, err := r.out.Write(block)
	return frame.ExplainPrint(err)
}
