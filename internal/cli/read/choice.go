package read

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A choice selects packets by the facts about them in the files. A field that is nil selects all.
type choice struct {
	period     period
	interfaces []string // names or patterns
	verdicts   []string // names or numbers
	reasons    []string // names or patterns
	slowerThan time.Duration
	lost       bool

	xdpVerdicts, tcVerdicts []capture.Verdict                            // verdicts, parsed
	reasonName              func(source uint16, f *capture.Facts) string // Description.ReasonName
	sources                 map[uint16]bool                              // a cache: whether -i names the source
	hasVerdicts             bool                                         // a packet so far had a verdict
	replays                 bool                                         // the verdicts are those of the files, before the replay
}

func (c *choice) flags() []frame.Flag {
	return []frame.Flag{
		{Name: "from", Value: &c.period.from,
			Help: "omit packets before this `time`: 2026-07-01 14:05:00.5 in local time, 2026-07-01T14:05:00Z, or 14:05 on the day on which the last file begins; -10m is ten minutes ago"},
		{Name: "to", Value: &c.period.to, Help: "omit packets from this `time` on, which is given as that of --from"},
		{Name: "interface", Letter: "i", Value: (*frame.List)(&c.interfaces), Settings: frame.CommandLineOnly,
			Help: "only packets of these `interfaces`, as lines show them: eth0,veth*,eth1@egress"},
		{Name: "verdict", Value: (*frame.List)(&c.verdicts), Words: xdp.VerdictNames(), List: true, Settings: frame.CommandLineOnly,
			Help: "only packets to which the XDP program gave these `verdicts`: drop,aborted,tx,redirect,pass, or numbers"},
		{Name: "reason", Value: (*frame.List)(&c.reasons), Settings: frame.CommandLineOnly,
			Help: "only packets that were thrown away for one of these `reasons`: NO_SOCKET,TCP_*"},
		{Name: "slower-than", Value: &c.slowerThan, Settings: frame.CommandLineOnly, Help: "only packets for which the XDP program ran at least this `time`: 5us"},
		{Name: "lost", Value: &c.lost, Settings: frame.CommandLineOnly, Help: "only packets that this host threw away: in the XDP program, or in a capture of --drops"},
	}
}

// check finds mistakes in the flags, and parses the verdicts.
func (c *choice) check() error {
	var err error
	if c.xdpVerdicts, c.tcVerdicts, err = frame.ParseVerdicts(c.verdicts); err != nil {
		return err
	}
	for _, given := range []struct {
		flag     string
		patterns []string
	}{{"-i", c.interfaces}, {"--reason", c.reasons}} {
		for _, p := range given.patterns {
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("%s %s: %w", given.flag, p, err)
			}
		}
	}
	if err := frame.CheckSlowerThan(c.slowerThan); err != nil {
		return err
	}
	return c.period.check()
}

// contains reports whether a packet is selected. It notes for checkFound whether packets have
// verdicts, and for period.missed their times.
func (c *choice) contains(s *capture.Source, p *capture.Packet) bool {
	verdict, kind, known := s.ReturnOf(p)
	known = known && kind != capture.PlainNumber
	c.hasVerdicts = c.hasVerdicts || known
	wanted := c.xdpVerdicts
	if kind == capture.TCVerdict {
		wanted = c.tcVerdicts
	}
	switch {
	case !c.period.contains(p.Time):
		return false
	case c.interfaces != nil && !c.containsSource(p.Source, s):
		return false
	case len(c.verdicts) > 0 && !(known && slices.Contains(wanted, verdict)):
		return false
	case c.reasons != nil && !matchesAny(c.reasonName(p.Source, p.Facts), c.reasons):
		return false
	case time.Duration(p.RunTime) < c.slowerThan:
		return false
	case c.lost && !s.Hook.Loses() && !(known && kind.Discards(verdict)):
		return false
	}
	return true
}

// containsSource is isNamed, computed once for each source.
func (c *choice) containsSource(number uint16, s *capture.Source) bool {
	named, known := c.sources[number]
	if !known {
		if c.sources == nil {
			c.sources = make(map[uint16]bool)
		}
		named = c.isNamed(s)
		c.sources[number] = named
	}
	return named
}

// isNamed reports whether -i names a source.
func (c *choice) isNamed(s *capture.Source) bool {
	return matchesAny(s.Name, c.interfaces) || matchesAny(s.Label(), c.interfaces)
}

// checkFound returns an error about verdicts or interfaces of the flags that the files do not have.
func (c *choice) checkFound(sources []capture.Source) error {
	if len(c.verdicts) > 0 && !c.hasVerdicts && len(sources) > 0 {
		names, ofRun := strings.Join(c.verdicts, ","), ""
		if c.replays {
			ofRun = "; those of this run: -w v.pcapng, then xdpcap read --verdict " + names + " v.pcapng"
		}
		return fmt.Errorf("--verdict %s: no packet in the files has a verdict, which captures of a traced program have%s", names, ofRun)
	}
	if c.interfaces == nil || len(sources) == 0 {
		return nil
	}
	var names []string
	for i := range sources {
		if c.isNamed(&sources[i]) {
			return nil
		}
		if label := sources[i].Label(); !slices.Contains(names, label) {
			names = append(names, label)
		}
	}
	return fmt.Errorf("-i %s: the interfaces in the files are %s", strings.Join(c.interfaces, ","), strings.Join(names, ", "))
}

// matchesAny reports whether a name matches one of the patterns.
func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		match, _ := path.Match(p, name)
		return match
	})
}
