package top

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// sources are the open counters of all interfaces, and of losses.
type sources struct {
	o         *Options
	all       []*source
	lost      counters.AnyCounter // nil = losses cannot be counted
	drops     meter.Interval[drops.Counts]
	whyEmpty  [kinds]string // why a table has no rows
	discovery *counters.Discovery
	ofOne     bool // losses of one interface are counted, and not of the machine
	timed     bool // run times are measured

	openSource func(name string) (*source, error) // tests replace it
}

// openSources opens the counters of named interfaces. follow opens those that match patterns.
func openSources(o *Options) (s *sources, err error) {
	s = &sources{o: o, discovery: counters.NewDiscovery(o.interfaces.Include), openSource: o.openSource}
	s.whyEmpty[runTimes] = "no XDP program runs here"
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	lossy := "" // the interface whose losses are counted; "" = all of the machine
	for _, name := range o.interfaces.Names() {
		opened, err := s.openSource(name)
		if err != nil {
			return s, err
		}
		s.all = append(s.all, opened)
		if slices.ContainsFunc(s.all[:len(s.all)-1], func(c *source) bool { return c.index == opened.index }) {
			return s, fmt.Errorf("interface %s is given twice", opened.name)
		}
	}
	if len(o.interfaces) == 1 && len(s.all) == 1 {
		s.ofOne, lossy = true, s.all[0].name
	}
	m, err := drops.Open(drops.Options{Interface: lossy, Flows: s.ofOne})
	if err != nil {
		s.whyEmpty[losses] = "what is lost is not counted: " + err.Error()
		s.whyEmpty[losingFlows] = s.whyEmpty[losses]
		return s, nil
	}
	s.lost = intervalIn(&s.drops, new(counters.DropsOptions).Counter(m, lossy))
	s.whyEmpty[losses] = "nothing is lost"
	if s.whyEmpty[losingFlows] = "no flow loses packets in the stack"; !s.ofOne {
		s.whyEmpty[losingFlows] = "the flows that lose packets are counted for one interface alone: -i NAME"
	}
	return s, nil
}

// read takes the next snapshots of all counters.
func (s *sources) read() (*readings, error) {
	r := &readings{at: time.Now(), whyEmpty: s.whyEmpty}
	for _, one := range s.all {
		if err := one.read(); err != nil {
			return nil, err
		}
		r.interfaces = append(r.interfaces, &one.reading)
	}
	if s.lost != nil {
		if err := s.lost.Next(); err != nil {
			return nil, err
		}
		s.omitOthers()
	}
	r.drops = s.drops
	r.whyEmpty[verdicts] = s.whyNoVerdicts()
	return r, nil
}

// omitOthers removes the losses of interfaces that are not watched, if the losses of the whole
// machine are counted.
func (s *sources) omitOthers() {
	if s.ofOne {
		return
	}
	names, any := append(s.names(), ""), slices.Contains(s.o.interfaces, frame.AnyInterface)
	maps.DeleteFunc(s.drops.Now.Losses, func(l drops.Loss, _ drops.Tally) bool {
		return l.Netns != 0 || !any && !slices.Contains(names, l.Device)
	})
}

func (s *sources) whyNoVerdicts() string {
	why := "no XDP program runs here: all packets go on to the stack"
	for _, one := range s.all {
		if one.traced {
			return ""
		}
		if one.hasXDP {
			why = "this kernel cannot trace the XDP program: packets are counted after it"
		}
	}
	return why
}

// follow follows the counted programs, and interfaces that come and go. The error is final: no
// interface is counted any more.
func (s *sources) follow() (notice string, err error) {
	notice = s.discover()
	for _, one := range slices.Clone(s.all) {
		more, failed := one.follow()
		if failed != nil {
			// Another program may have come or gone, and may need another way of counting.
			if more, err = failed.Error(), s.reopen(one); err != nil && len(s.all) == 0 && !s.o.interfaces.HasPattern() {
				return "", failed
			}
		}
		if more != "" {
			notice = more
		}
	}
	if s.lost != nil {
		if _, err := s.lost.Follow(); err != nil && len(s.all) > 0 {
			notice = err.Error()
		}
	}
	s.measure(s.timed)
	return notice, nil
}

// reopen opens the counters of an interface again, or drops it.
func (s *sources) reopen(one *source) error {
	at := slices.Index(s.all, one)
	closing := one.close()
	return errors.Join(s.openAt(at), closing)
}

// discover opens the counters of new interfaces that match a pattern, and closes those of
// interfaces that have gone.
func (s *sources) discover() (notice string) {
	if !s.o.interfaces.HasPattern() {
		return ""
	}
	ifis, err := s.discovery.Present()
	if err != nil {
		return err.Error()
	}
	s.all = slices.DeleteFunc(s.all, func(one *source) bool {
		gone := !ifis.Has(one.index, one.name)
		if gone {
			one.close()
			notice = one.name + " has gone"
		}
		return gone
	})
	isCounted := func(index int) bool {
		return slices.ContainsFunc(s.all, func(one *source) bool { return one.index == index })
	}
	for _, refusal := range s.discovery.OpenNew(ifis, isCounted, func(ifi *xdp.Interface) error {
		opened, err := s.openSource(ifi.Name)
		if err == nil {
			s.all = append(s.all, opened)
		}
		return err
	}) {
		notice = refusal
	}
	return notice
}

// openAt opens the closed counters of an interface again, or drops the interface.
func (s *sources) openAt(at int) error {
	opened, err := s.openSource(s.all[at].name)
	if err != nil {
		s.all = slices.Delete(s.all, at, at+1)
		return err
	}
	s.all[at] = opened
	return nil
}

// refilter counts the packets that match another filter. If an interface refuses it, all count by
// the filter before; an error of that is final.
func (s *sources) refilter(text string) (refused, final error) {
	before := s.o.filter
	s.o.filter.Text = text
	for _, one := range s.all { // find mistakes before counters are closed
		if _, _, err := s.o.filter.Compile(one.name, s.o.direction); err != nil {
			s.o.filter = before
			return err, nil
		}
	}
	for at, one := range s.all {
		if err := one.close(); err != nil {
			return nil, err
		}
		opened, err := s.openSource(one.name)
		if err != nil {
			s.o.filter = before
			final = s.openAt(at)
			for _, changed := range slices.Clone(s.all[:at]) {
				final = errors.Join(final, s.reopen(changed))
			}
			return err, final
		}
		s.all[at] = opened
	}
	return nil, nil
}

// measure measures run times only while they are shown, because that costs time for each packet.
func (s *sources) measure(on bool) {
	s.timed = on
	for _, one := range s.all {
		var err error
		switch {
		case !on:
			err = one.unmeasure()
		case one.hasXDP && !one.untimed:
			err = one.measure(s.o.program)
		default:
			continue
		}
		if one.untimed = err != nil; one.untimed {
			s.whyEmpty[runTimes] = err.Error()
		}
	}
}

// where names the interfaces, for the first line.
func (s *sources) where() string {
	switch len(s.all) {
	case 0:
		return "no interface yet"
	case 1:
		return s.all[0].name + ", " + s.all[0].brief
	}
	return fmt.Sprintf("%d interfaces", len(s.all))
}

// writeTotals prints the reports of all counters about their whole time. Of several interfaces it
// omits those without packets.
func (s *sources) writeTotals(p *frame.Page) {
	var all []counters.AnyCounter
	for _, one := range s.all {
		if len(s.all) == 1 || one.total().Packets > 0 {
			all = append(all, one.open...)
		}
	}
	if s.lost != nil {
		all = append(all, s.lost)
	}
	var reports []counters.Report
	for _, c := range all {
		reports = append(reports, c.WholeReport())
	}
	for i, r := range counters.Joined(reports) {
		if i > 0 {
			fmt.Fprintln(p)
		}
		counters.WriteBlock(p, "total", all[i].String(), r)
	}
}

// close detaches everything.
func (s *sources) close() error {
	var errs []error
	for _, one := range s.all {
		errs = append(errs, one.close())
	}
	if s.lost != nil {
		errs = append(errs, s.lost.Close())
	}
	return errors.Join(errs...)
}

// names are the names of all interfaces, sorted.
func (s *sources) names() []string {
	var names []string
	for _, one := range s.all {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}
