package top

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// sources are the open counters of all interfaces, and of what is lost.
type sources struct {
	o     *Options
	all   []*source
	lost  meters // nil = why says why not
	drops meter.Interval[drops.Counts]
	why   [kinds]string // why a table is empty
	found *counters.Discovery
	ofOne bool // the losses are those of one interface
	timed bool // run times are measured

	// openSource opens the counters of an interface.
	openSource func(name string) (*source, error)
}

// openSources opens the counters of the interfaces that are named; those that patterns name come
// with look.
func openSources(o *Options) (s *sources, err error) {
	s = &sources{o: o, found: counters.NewDiscovery(o.interfaces.Include), openSource: o.openSource}
	s.why[runTimes] = "no XDP program runs here"
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	one := ""
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
		s.ofOne, one = true, s.all[0].name // what several lose is counted for the whole machine, by one set of programs
	}
	m, err := drops.Open(drops.Options{Interface: one, Flows: s.ofOne})
	if err != nil {
		s.why[losses] = "what is lost is not counted: " + err.Error()
		s.why[losingFlows] = s.why[losses]
		return s, nil
	}
	s.lost = &counter[drops.Counts]{new(counters.DropsOptions).Counter(m, one), &s.drops}
	s.why[losses] = "nothing is lost"
	if s.why[losingFlows] = "no flow loses packets in the stack"; !s.ofOne {
		s.why[losingFlows] = "the flows that lose packets are counted for one interface alone: -i NAME"
	}
	return s, nil
}

// read takes the next snapshots of all counters.
func (s *sources) read() (*readings, error) {
	r := &readings{at: time.Now(), why: s.why}
	for _, one := range s.all {
		if err := one.read(); err != nil {
			return nil, err
		}
		r.interfaces = append(r.interfaces, &one.reading)
	}
	if s.lost != nil {
		if err := s.lost.read(); err != nil {
			return nil, err
		}
		s.omitOthers()
	}
	r.drops = s.drops
	r.why[verdicts] = s.whyNoVerdicts()
	return r, nil
}

// omitOthers removes the losses of interfaces that are not watched, where those of the whole
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
		if one.runs {
			why = "this kernel cannot trace the XDP program: packets are counted after it"
		}
	}
	return why
}

// look follows what is counted, and interfaces that come and go. The error is final: nothing is
// counted any more.
func (s *sources) look() (notice string, err error) {
	notice = s.discover()
	for _, one := range slices.Clone(s.all) {
		more, failed := one.follow()
		if failed != nil {
			// Another program may have come or gone: another way of counting is right then.
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

// discover opens the counters of interfaces that a pattern names and that have come, and closes
// those of interfaces that have gone.
func (s *sources) discover() (notice string) {
	if !s.o.interfaces.HasPattern() {
		return ""
	}
	ifis, err := s.found.Look()
	if err != nil {
		return err.Error()
	}
	s.all = slices.DeleteFunc(s.all, func(one *source) bool {
		gone := !ifis.Have(one.index, one.name)
		if gone {
			one.close()
			notice = one.name + " has gone"
		}
		return gone
	})
	for _, ifi := range ifis {
		if slices.ContainsFunc(s.all, func(one *source) bool { return one.index == ifi.Index }) {
			continue
		}
		refusal := s.found.Try(&ifi, func() error {
			opened, err := s.openSource(ifi.Name)
			if err == nil {
				s.all = append(s.all, opened)
			}
			return err
		})
		notice = cmp.Or(refusal, notice)
	}
	return notice
}

// openAt opens the counters of an interface whose former ones are closed, or drops it.
func (s *sources) openAt(at int) error {
	opened, err := s.openSource(s.all[at].name)
	if err != nil {
		s.all = slices.Delete(s.all, at, at+1)
		return err
	}
	s.all[at] = opened
	return nil
}

// refilter counts what matches a filter from now on. If an interface refuses it, all are counted as
// before; or the error is final.
func (s *sources) refilter(text string) (refused, final error) {
	before := s.o.filter
	s.o.filter.Text = text
	for _, one := range s.all { // mistakes are found before anything is closed
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

// measure measures run times while they are shown, because that takes time of each packet.
func (s *sources) measure(on bool) {
	s.timed = on
	for _, one := range s.all {
		if on && (!one.runs || one.untimed) {
			continue
		}
		err := one.measure(s.o.program, on)
		if one.untimed = err != nil; one.untimed {
			s.why[runTimes] = err.Error()
		}
	}
}

// where says what is counted, for the first line.
func (s *sources) where() string {
	switch len(s.all) {
	case 0:
		return "no interface yet"
	case 1:
		return s.all[0].name + ", " + s.all[0].brief
	}
	return fmt.Sprintf("%d interfaces", len(s.all))
}

// writeTotals prints the reports of all counters about their whole time. Of many interfaces only
// the busy ones are shown.
func (s *sources) writeTotals(p *frame.Page) {
	var all []totals
	for _, one := range s.all {
		if len(s.all) > 1 && one.total().Packets == 0 {
			continue
		}
		for _, m := range one.open {
			all = append(all, m.total())
		}
	}
	if s.lost != nil {
		all = append(all, s.lost.total())
	}
	var reports []counters.Report
	for _, t := range all {
		reports = append(reports, t.Report)
	}
	counters.Joined(reports)
	for i, t := range all {
		if i > 0 {
			fmt.Fprintln(p)
		}
		t.write(p)
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

// names are those of all interfaces.
func (s *sources) names() []string {
	var names []string
	for _, one := range s.all {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}
