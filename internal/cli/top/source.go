package top

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A source is an interface with its open counters.
type source struct {
	reading
	index   int
	brief   string                // how, in a few columns
	hasXDP  bool                  // an XDP program runs there
	open    []counters.AnyCounter // in the order of their totals
	times   counters.AnyCounter   // of run times; nil while they are not shown
	untimed bool                  // run times cannot be counted
}

// shownFlows is the number of flows in the totals.
const shownFlows = 10

// openSource opens the counters of an interface, or none.
func (o *Options) openSource(name string) (s *source, err error) {
	ifi, err := xdp.EthernetInterface(name)
	if err != nil {
		return nil, err
	}
	s = &source{reading: reading{name: ifi.Name}, index: ifi.Index}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	received, sent, err := o.filter.Compile(ifi.Name, o.direction)
	if err != nil {
		return s, err
	}
	options := meter.ProtocolsOptions{Interface: ifi.Name, Program: o.program, Variant: meter.PerCPU, Sizes: true, Flows: true, FilterText: o.filter.Text}
	if o.direction != capture.Out {
		options.Filter, options.AtIngress = received, support.PrefersTC(ifi)
		if err := s.countReceived(options); err != nil {
			return s, err
		}
	}
	if o.direction != capture.In {
		options.Filter, options.AtIngress, options.Sent = sent, false, true
		if err := s.count(options, capture.Out, &s.out); err != nil {
			return s, err
		}
	}
	s.brief = cmp.Or(s.brief, s.how)
	return s, nil
}

// countReceived counts received packets, and the verdicts of a program that runs there. If the
// program cannot be traced, it counts the packets that the program passes.
func (s *source) countReceived(options meter.ProtocolsOptions) error {
	err := s.count(options, capture.In, &s.in)
	switch {
	case meter.IsUntraceable(err) && options.Program == "":
		options.AtIngress, s.hasXDP = true, true
		if err := s.count(options, capture.In, &s.in); err != nil {
			return err
		}
		s.how = "tc, after an XDP program"
		return nil
	case err != nil || !s.traced:
		return err
	}
	a, err := meter.OpenActions(meter.ActionsOptions{Interface: s.name, Program: options.Program, Verdict: xdp.Pass, TraceOnly: true})
	if err != nil {
		return err
	}
	s.open = append(s.open, intervalIn(&s.verdicts, new(counters.StatsOptions).Counter(a, s.name)))
	return nil
}

// count opens the counters of protocols, sizes and flows of one direction.
func (s *source) count(options meter.ProtocolsOptions, d capture.Direction, into *meter.Interval[meter.ProtocolCounts]) error {
	p, err := meter.OpenProtocols(options)
	if err != nil {
		return err
	}
	o := &counters.CountOptions{Sizes: true, Flows: shownFlows}
	s.open = append(s.open, intervalIn(into, o.Counter(p, d, s.name)))
	if d == capture.Out {
		if s.how != "" {
			s.how += "; "
		}
		s.how += "sent"
		return nil
	}
	switch traced := p.Traced(); {
	case traced != nil:
		s.traced, s.hasXDP = true, true
		s.how, s.brief = fmt.Sprintf("tracing %v", *traced), fmt.Sprintf("%s (%d)", traced.Name, traced.ID)
	case options.AtIngress:
		s.how = "tc ingress"
	default:
		s.how = "XDP"
	}
	return nil
}

// intervalIn lets a counter keep its interval in a reading.
func intervalIn[S any](kept *meter.Interval[S], c *counters.Counter[S]) counters.AnyCounter {
	c.Interval = kept
	return c
}

// counters are the counters that are open.
func (s *source) counters() []counters.AnyCounter {
	if s.times == nil {
		return s.open
	}
	return append([]counters.AnyCounter{s.times}, s.open...)
}

// read takes the next snapshots of all counters.
func (s *source) read() error {
	for _, c := range s.counters() {
		if err := c.Next(); err != nil {
			return err
		}
	}
	return nil
}

// follow follows the counted programs.
func (s *source) follow() (notice string, err error) {
	for _, c := range s.counters() {
		more, err := c.Follow()
		if err != nil {
			return "", err
		}
		if more != "" {
			notice = more
		}
	}
	return notice, nil
}

// unmeasure ends the measurement of run times.
func (s *source) unmeasure() error {
	if s.times == nil {
		return nil
	}
	times := s.times
	s.times = nil
	return times.Close()
}

// measure begins to measure run times of a program; "" = any.
func (s *source) measure(program string) error {
	if s.times != nil {
		return nil
	}
	s.latency, s.runtime = meter.Interval[meter.LatencyCounts]{}, meter.Interval[meter.RuntimeCounts]{}
	l, err := meter.OpenLatency(s.name, program)
	if err == nil {
		s.times = intervalIn(&s.latency, new(counters.LatencyOptions).Counter(l, nil, s.name))
		return nil
	}
	if !errors.Is(err, meter.ErrNotMeasurable) {
		return err
	}
	r, err := meter.OpenRuntime(s.name)
	if err == nil {
		s.times = intervalIn(&s.runtime, counters.MeanCounter(r))
	}
	return err
}

// close detaches everything.
func (s *source) close() error {
	var errs []error
	for _, c := range s.counters() {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
