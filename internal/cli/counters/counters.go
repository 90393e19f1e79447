// Package counters has the commands that count in the kernel: stats, count, latency, monitor and
// drops. All of them open counters, read them in intervals, print and export them, and follow the
// counted programs.
package counters

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Counter is a command's open meter of an interface, with how the command shows it. S is a
// snapshot of the meter, a type of internal/meter. It is cumulative since the meter was opened, and
// its zero value means that nothing was counted. All rates come from two snapshots, so that the
// kernel's counters need not be reset and several readers do not disturb each other.
type Counter[S any] struct {
	kernelMeter[S]
	Report  func(meter.Interval[S]) Report
	Metrics metrics.Set[S]
}

// newCounter returns the counter of a meter that is open.
func newCounter[S any, R Report](m kernelMeter[S], set metrics.Set[S], report func(meter.Interval[S]) R) *Counter[S] {
	return &Counter[S]{m, func(i meter.Interval[S]) Report { return report(i) }, set}
}

// Next returns the interval from the last snapshot to one that it takes.
func (c *Counter[S]) Next(last meter.Interval[S]) (meter.Interval[S], error) {
	now, err := c.Read()
	if err != nil {
		return last, err
	}
	end := time.Now()
	return last.Next(now, end, end.Sub(c.Began())), nil
}

// A kernelMeter is one of internal/meter's types.
type kernelMeter[S any] interface {
	// String is the title of a table: what is counted and how, "rx0, XDP native".
	String() string
	// Began returns when counting began.
	Began() time.Time
	// Read may be called concurrently, because a scrape reads, too.
	Read() (S, error)
	// Follow checks that the counted program is still there, and goes on with one that has replaced
	// it; a notice says so. After an ErrNotCounting a later call may find something to count again;
	// any other error is final.
	Follow() (notice string, err error)
	// Capabilities are the numbers of the capabilities that Follow and Close need later.
	Capabilities() []int
	// Close detaches everything. It is called once, after the last Read.
	Close() error
}

// An opener begins to count on an interface, or with "" for all interfaces together.
type opener[S any] func(iface string) (*Counter[S], error)

// run runs a counter command, from the check of its privileges to its totals. It calls each
// opener for each interface when everything else is ready, so that nothing is attached if something
// else is wrong. If no interface is named, the command counts on all interfaces that exist at any
// time, unless it counts everything of the machine together.
func run[S any](o *Options, g frame.Guard, open ...opener[S]) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	interfaces, discovers := o.Interfaces.Names(), len(o.Interfaces) == 0 || o.Interfaces.HasPattern()
	if o.OfMachine { // it knows -i any itself
		interfaces, discovers = o.Interfaces, false
		if len(interfaces) == 0 {
			interfaces = []string{""}
		}
	}
	g.Interfaces = interfaces
	ctx, err := o.Process.Begin(g)
	if err != nil {
		return err
	}
	exp, err := metrics.Listen(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	r := &counterRun[S]{
		o: o, open: open, registry: metrics.NewRegistry(),
		out: o.Process.Stdout.File, messages: o.Process.Stderr, screen: frame.NewScreen(o.Process.Stdout.File),
		colored: frame.Colored(o.color, o.Process.Stdout.File),
	}
	defer func() {
		exp.Close() // first, because a scrape reads the counters
		if closing := r.end(r.counted...); err == nil {
			err = closing
		}
	}()
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
	var needs []int
	for _, c := range r.counted {
		needs = append(needs, c.Capabilities()...)
	}
	if discovers {
		needs = discoveryNeeds
	}
	if err := frame.EnterCounters(o.Process, o.keep, o.listen != "", needs); err != nil {
		return err
	}
	exp.Serve(r.registry)
	if exp != nil {
		r.tell(exp.String())
	}
	for _, c := range r.counted {
		frame.Say(o.Process.Stderr, "%s %v", cmp.Or(o.Begins, "listening on"), c)
	}
	if discovers {
		r.discovery = NewDiscovery(o.wants)
		r.discover()
		if len(r.counted) == 0 && o.tracesOnly {
			r.tell("no XDP program to count yet: waiting for one")
		} else if len(r.counted) == 0 {
			r.tell("no interface to count on yet: waiting for one")
		}
	}
	return r.run(ctx)
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

// WriteBlock prints the table of one interval under its title: when and of what it is.
func WriteBlock[S any](p *frame.Page, when, of string, i meter.Interval[S], r Report) {
	over := fmt.Sprintf("over %.3f s", i.Took.Seconds())
	if i.Took != i.Elapsed {
		over = fmt.Sprintf("rates %s, totals over %.3f s", over, i.Elapsed.Seconds())
	}
	if of = message.Escape(of); p.Columns > 0 { // the name is shortened before the numbers are
		of = frame.Shorten(of, max(8, p.Columns-utf8.RuneCountInString(when+"  , "+over)))
	}
	p.Line("%s  %s, %s", when, of, over)
	r.WriteTable(p)
}
