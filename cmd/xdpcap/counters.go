package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// counterOptions are the flags that all counter commands have.
type counterOptions struct {
	interval time.Duration
	count    uint64        // intervals; 0 = until a signal
	duration time.Duration // 0 = until a signal
	json     bool
	listen   string // address of the metrics, "" = none
	perCPU   bool
	quiet    bool
	verbose  int
	keep     bool // --no-sandbox
}

// minInterval bounds the load that reading the counters causes.
const minInterval = 10 * time.Millisecond

// addFlags adds these flags to those of a command, as its last groups.
func (o *counterOptions) addFlags(f *pflag.FlagSet) {
	addGroup(f, "When", o.timeFlags)
	addGroup(f, "Output", o.outputFlags)
	addGroup(f, "Privileges", func(f *pflag.FlagSet) { noSandboxVar(f, &o.keep) })
}

func (o *counterOptions) timeFlags(f *pflag.FlagSet) {
	durationVar(f, &o.interval, "interval", time.Second, "print once in this `time`: 200ms, 1s or just 1, 1m")
	f.Uint64VarP(&o.count, "count", "c", 0, "end after this many `intervals`; 0: with Ctrl-C")
	durationVar(f, &o.duration, "duration", 0, "end after this `time`: 10s or just 10, 5m, 1h")
}

func (o *counterOptions) outputFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print one JSON object per interval and line")
	listenVar(f, &o.listen)
	f.BoolVar(&o.perCPU, "per-cpu", false, "count each CPU by itself")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print the totals alone, when it ends")
	f.CountVarP(&o.verbose, "verbose", "v", "print more about errors")
}

// interfacesVar defines the flag for the interfaces that a command counts on.
func interfacesVar(f *pflag.FlagSet, interfaces *[]string, usage string) {
	f.StringArrayVarP(interfaces, "interface", "i", nil, usage+"; repeat it for several")
}

// programVar defines --program for a command that takes one.
func programVar(f *pflag.FlagSet, program *string) {
	f.StringVar(program, "program", "", "which program, where several run: `NAME` or id; or the id of one in a devmap or cpumap")
}

// modeVar defines --xdp-mode for a command that attaches a program where none runs.
func modeVar(f *pflag.FlagSet, mode *string) {
	f.StringVar(mode, "xdp-mode", "auto", "where to attach, `mode`: native (driver), generic (stack), or auto: native if it can be had")
}

func (o *counterOptions) check() error {
	if o.interval < minInterval {
		return fmt.Errorf("--interval %v: must be at least %v", o.interval, minInterval)
	}
	if o.duration > 0 && o.duration < minInterval {
		return fmt.Errorf("--duration %v: must be at least %v", o.duration, minInterval)
	}
	return nil
}

var errNoInterface = errors.New("which interface? -i NAME; xdpcap interfaces lists them")

// checkInterfaces refuses a command without -i, unless it exports: then it counts on all, where it
// does nothing else than count. Flags that choose one of several things, or that drop packets, are
// for interfaces that are named; given has those that were given, such as "--program".
func (o *counterOptions) checkInterfaces(interfaces []string, given ...string) error {
	switch {
	case len(interfaces) > 0:
		return nil
	case o.listen == "":
		return errNoInterface
	case len(given) > 0:
		return fmt.Errorf("%s is for interfaces that are named: add -i NAME", given[0])
	}
	return nil
}

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
// for each interface when everything else is ready, so that nothing is attached if something else
// is wrong. The interface is "" where the command counts for all together. Where none is named, the
// command counts on all that there are at any time.
func runCounters[S any](o *counterOptions, g guard, interfaces []string, open func(iface string) (*counters[S], error)) (err error) {
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

	all, err := openCounters(interfaces, open)
	if err != nil {
		return err
	}
	defer func() {
		if closing := closeCounters(all); err == nil {
			err = closing
		}
	}()
	if err := enterFollowing(o.keep); err != nil {
		return err
	}
	registry := newRegistry(collectors(all)...)
	exp.serve(registry)
	defer exp.close() // before the counters are closed, because a scrape reads them
	r := &counterRun[S]{o: o, counted: newCounted(all...), out: os.Stdout, messages: stderr, screen: newScreen(os.Stdout)}
	if exp != nil {
		r.tell(exp.String())
	}
	for _, c := range all {
		say(stderr, "listening on %v", c)
	}
	if len(interfaces) == 0 {
		r.discovery = newDiscovery(open, registry)
		defer func() {
			exp.close()
			err = errors.Join(err, r.discovery.close(r))
		}()
		r.discovery.look(r)
		if len(r.counted) == 0 {
			r.tell("no interface to count on yet: waiting for one")
		}
	}
	return r.run(ctx)
}

// openCounters opens the counters of all interfaces, or none.
func openCounters[S any](interfaces []string, open func(iface string) (*counters[S], error)) (all []*counters[S], err error) {
	if err := checkDistinct(interfaces); err != nil {
		return nil, err
	}
	for _, name := range interfaces {
		c, err := open(name)
		if err != nil {
			closeCounters(all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// checkDistinct refuses an interface that is given twice, perhaps by different names.
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

func collectors[S any](all []*counters[S]) (list []prometheus.Collector) {
	for _, c := range all {
		list = append(list, newCollector(c.Read, c.metrics))
	}
	return list
}

func closeCounters[S any](all []*counters[S]) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// lookInterval is how often a counter command looks whether what it counts is still there.
const lookInterval = time.Second

// A counterRun prints a report of all counters for each interval.
type counterRun[S any] struct {
	o        *counterOptions
	counted  []*counted[S]
	out      io.Writer
	messages io.Writer
	screen   *screen  // nil: not a terminal
	notes    []string // the last messages: on a screen, the tables hide them where they were printed

	discovery *discovery[S] // nil: the interfaces were named
}

// tell prints a message, which is shown with the tables from then on, too.
func (r *counterRun[S]) tell(message string) {
	const most = 4
	say(r.messages, "%s", message)
	r.notes = append(r.notes, message)
	r.notes = r.notes[max(len(r.notes)-most, 0):]
}

// Counted are the counters of one interface, and what was last read of them and said about them.
type counted[S any] struct {
	*counters[S]
	last  meter.Interval[S]
	said  string
	ended error // why nothing is counted any more; nil = it is

	// Of a discovery: the interface, and what exports its counters.
	index     int
	name      string
	collector *collector[S]
}

func newCounted[S any](all ...*counters[S]) (list []*counted[S]) {
	for _, c := range all {
		list = append(list, &counted[S]{counters: c})
	}
	return list
}

// run returns nil when the end was asked for.
func (r *counterRun[S]) run(ctx context.Context) error {
	ctx, cancel := forDuration(ctx, r.o.duration)
	defer cancel()
	tick, look := time.NewTicker(r.o.interval), time.NewTicker(lookInterval)
	defer tick.Stop()
	defer look.Stop()
	for n := uint64(0); r.o.count == 0 || n < r.o.count; {
		select {
		case <-ctx.Done():
			return r.end()
		case <-look.C:
			if !r.look() {
				return r.end()
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
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < minInterval {
				return r.close() // what is left is no interval
			}
		}
	}
	return r.close()
}

// look tells whether anything is still counted. What ends on one interface does not end the others,
// and is said at once. A command that exports its counters waits for a program where there is none,
// since what is deployed may be away for a while.
func (r *counterRun[S]) look() (counting bool) {
	if r.discovery != nil {
		r.discovery.look(r)
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

// end prints what was counted since the last interval, too, and ends the run. The last interval,
// which is cut short, is printed for readers that add up JSON objects. A table is followed by the
// totals, which include it.
func (r *counterRun[S]) end() error {
	err := r.read()
	whole := len(r.counted) > 0 && r.counted[0].last.Took > r.o.interval-minInterval // its tick came at the same time
	if err == nil && (r.o.json || whole) {
		err = r.print()
	}
	if closing := r.close(); closing != nil {
		return closing
	}
	return err
}

// close prints the totals and returns why counting has ended, nil where that was asked for.
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
	case r.o.json:
		return r.printObjects(func(c *counted[S]) meter.Interval[S] { return c.last })
	}
	var block []byte
	if r.screen != nil {
		for _, note := range r.notes {
			block = append(block, printable(note)+"\n"...)
		}
	}
	for _, c := range r.counted {
		block = append(block, c.block(c.last.End.Format("15:04:05.000"), c.last)...)
		if r.screen == nil {
			block = append(block, '\n')
		}
	}
	if r.screen != nil {
		block = r.screen.redraw(block)
	}
	_, err := r.out.Write(block)
	return explainPrint(err)
}

func (r *counterRun[S]) printObjects(of func(*counted[S]) meter.Interval[S]) error {
	e := json.NewEncoder(r.out)
	for _, c := range r.counted {
		if err := e.Encode(c.newReport(of(c)).object()); err != nil {
			return explainPrint(err)
		}
	}
	return nil
}

// printTotals shows the whole run as one interval. JSON objects have these numbers already, unless
// none was printed.
func (r *counterRun[S]) printTotals() error {
	if r.o.json && !r.o.quiet {
		return nil
	}
	if r.o.json {
		return r.printObjects(func(c *counted[S]) meter.Interval[S] { return c.last.Whole() })
	}
	var block []byte
	for i, c := range r.counted {
		if r.screen != nil || i > 0 {
			block = append(block, '\n')
		}
		block = append(block, c.block("total", c.last.Whole())...)
	}
	_, err := r.out.Write(block)
	return explainPrint(err)
}
