package counters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// LookInterval is the time between checks that the counted programs and interfaces still exist.
const LookInterval = time.Second

// An opener begins to count on an interface, or with "" for all interfaces together.
type opener func(iface string) (AnyCounter, error)

// run runs a counter command, from the check of its privileges to its totals. It calls each opener
// for each interface last, so that no program is attached if another step fails.
func run(o *Options, g frame.Guard, open ...opener) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	interfaces, discovers := o.countedInterfaces()
	g.Interfaces = interfaces
	ctx, err := o.Process.Begin(g)
	if err != nil {
		return err
	}
	exporter, err := metrics.Listen(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	r := &counterRun{
		o: o, open: open, registry: metrics.NewRegistry(),
		out: o.Process.Stdout.File, messages: o.Process.Stderr, screen: frame.NewScreen(o.Process.Stdout.File),
		colored: frame.Colored(o.color, o.Process.Stdout.File),
	}
	defer func() {
		exporter.Close() // first, because a scrape reads the counters
		if closing := r.end(r.counted...); err == nil {
			err = closing
		}
	}()
	if err := r.beginAll(interfaces, discovers); err != nil {
		return err
	}
	needs := discoveryNeeds
	if !discovers {
		needs = nil
		for _, c := range r.counted {
			needs = append(needs, c.Capabilities()...)
		}
	}
	if err := frame.EnterCounters(o.Process, o.noSandbox, o.listen != "", needs); err != nil {
		return err
	}
	exporter.Serve(r.registry)
	if exporter != nil {
		r.tell(exporter.String())
	}
	for _, c := range r.counted {
		r.tell(fmt.Sprintf("%s %v", cmp.Or(o.firstWords, "listening on"), c))
	}
	if discovers {
		r.beginDiscovery()
	}
	return r.run(ctx)
}

// countedInterfaces are the names of -i. If there are none, or a pattern, the command discovers
// more interfaces later. For the whole machine it has one set of counters instead: "" or any.
func (o *Options) countedInterfaces() (names []string, discovers bool) {
	switch {
	case o.ofMachine && len(o.Interfaces) == 0:
		return []string{""}, false
	case o.ofMachine:
		return o.Interfaces, false
	}
	return o.Interfaces.Names(), len(o.Interfaces) == 0 || o.Interfaces.HasPattern()
}

// A counterRun prints a report of all counters for each interval.
type counterRun struct {
	o        *Options
	open     []opener
	registry *prometheus.Registry
	counted  []*counted
	out      io.Writer
	messages io.Writer
	screen   *frame.Screen // nil: not a terminal
	colored  bool

	discovery *Discovery // nil = the interfaces were named
}

// counted is an open counter of an interface, with the messages about it so far.
type counted struct {
	AnyCounter
	said  string // the last message
	ended error  // why counting has ended; nil = it goes on

	index     int // of the interface; 0 = it was named
	name      string
	collector Collector
}

// beginAll opens the counters of the named interfaces. If others are discovered later, it keeps the
// indices of the named ones.
func (r *counterRun) beginAll(interfaces []string, discovers bool) error {
	if err := checkDistinct(interfaces); err != nil {
		return err
	}
	for _, name := range interfaces {
		index := 0
		if discovers {
			ifi, err := xdp.InterfaceByName(name)
			if err != nil {
				return err
			}
			index, name = ifi.Index, ifi.Name
		}
		if err := r.begin(index, name); err != nil {
			return err
		}
	}
	return nil
}

// checkDistinct refuses an interface that is given twice, even by different names.
func checkDistinct(interfaces []string) error {
	if len(interfaces) < 2 {
		return nil
	}
	var seen []int
	for _, name := range interfaces {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		if slices.Contains(seen, ifi.Index) {
			return fmt.Errorf("interface %s is given twice", ifi.Name)
		}
		seen = append(seen, ifi.Index)
	}
	return nil
}

// begin opens and exports all counters of an interface; after an error none is open.
func (r *counterRun) begin(index int, name string) error {
	var opened []*counted
	for _, open := range r.open {
		c, err := open(name)
		if err == nil {
			one := &counted{AnyCounter: c, index: index, name: name, collector: c.Collector()}
			if err = r.registry.Register(one.collector); err == nil {
				opened = append(opened, one)
				continue
			}
			err = errors.Join(err, c.Close())
		}
		r.end(opened...)
		return frame.Untraced(err, name, r.o.instead)
	}
	r.counted = append(r.counted, opened...)
	return nil
}

// end closes counters, and removes their metrics.
func (r *counterRun) end(all ...*counted) error {
	var errs []error
	for _, c := range all {
		r.registry.Unregister(c.collector)
		c.collector.End()
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// tell prints a message. On a terminal it stays between the tables.
func (r *counterRun) tell(message string) {
	frame.Say(r.messages, "%s", message)
	if r.screen != nil {
		r.screen.Leave()
	}
}

// run counts until a signal, a limit of the flags, or the end of all counting. Only the last of
// these is an error.
func (r *counterRun) run(ctx context.Context) error {
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

// look follows the counted programs and interfaces, and reports whether any is still counted. If
// one interface ends, it prints that at once, and the others go on. A command that exports its
// counters waits where a program is missing, because a deployment may replace the program.
func (r *counterRun) look() (counting bool) {
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
		r.tellOnce(c, notice)
		c.ended = err
		counting = counting || err == nil
	}
	for _, c := range r.counted {
		if counting && c.ended != nil {
			r.tellOnce(c, c.ended.Error())
		}
	}
	return counting
}

// tellOnce prints a message about a counter, unless the last one about it was the same.
func (r *counterRun) tellOnce(c *counted, message string) {
	if message != "" && message != c.said {
		c.said = message
		r.tell(message)
	}
}

// finish prints what was counted since the last interval, and ends the run. A last interval that
// was cut short is printed only as JSON, for readers that add up the objects: after a table come
// the totals, which include it.
func (r *counterRun) finish() error {
	err := r.read()
	// The interval is whole if its tick came together with the end.
	isWhole := func(c *counted) bool {
		return c.LastReport().interval().Interval > (r.o.interval - minInterval).Seconds()
	}
	if err == nil && (r.o.JSON || len(r.counted) > 0 && isWhole(r.counted[0])) {
		err = r.print()
	}
	if closing := r.close(); closing != nil {
		return closing
	}
	return err
}

// close prints the totals, and returns why counting has ended; nil after a signal or a limit.
func (r *counterRun) close() error {
	printing := r.printTotals()
	var ended []error
	for _, c := range r.counted {
		ended = append(ended, c.ended)
	}
	if err := errors.Join(ended...); err != nil {
		return err
	}
	return printing
}

// read takes the next snapshots.
func (r *counterRun) read() error {
	for _, c := range r.counted {
		if err := c.Next(); err != nil {
			return err
		}
	}
	return nil
}
