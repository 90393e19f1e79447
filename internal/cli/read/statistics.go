package read

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/estimate"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	maxReadFlows = 1 << 17 // number of flows that are counted one by one, the same as in --first and count
	topReadFlows = 10
)

// statistics is what read --stats prints: what the packets of capture files are, and what the files
// say is missing.
type statistics struct {
	out   io.Writer // nil = it is not printed
	json  bool
	page  *pageWriter // nil without --report
	Input *file.Input // to be set before the first packet

	causeNames func(source uint16, f *capture.Facts) (reason, location string)

	sources []capture.Source
	tallies []*interfaceTally // by source

	total      readTally
	interfaces []*interfaceTally // in the order of the files
	tallyOf    map[filtered]*interfaceTally
	verdicts   [xdp.VerdictSlots]readTally
	atTC       map[string]*readTally // by the names of verdicts at tc
	reasons    map[cause]*readTally  // of packets that were thrown away
	flows      map[meter.Flow]*readTally
	overflow   readTally // packets of flows for which there was no room
	from, to   int64     // times of the first and the last packet, in ns since the epoch
	timed      bool
	drawn      readDraw
}

// readTally counts packets and their bytes, and sums up their weights for estimates.
type readTally struct {
	packets, bytes             uint64
	packetsBefore, bytesBefore estimate.Sum // they were drawn
}

func (t *readTally) add(bytes, weight uint32) {
	t.packets++
	t.bytes += uint64(bytes)
	t.packetsBefore.Add(weight, 1)
	t.bytesBefore.Add(weight, float64(bytes))
}

// interfaceTally counts the packets of an interface with a filter, in all files where it has this
// label and this filter.
type interfaceTally struct {
	readTally
	source     capture.Source
	label      string // printable
	gaps, lost uint64
	statistics []file.InterfaceStatistics // of the interfaces in files
}

// filtered is an interface with a filter: a capture with --reload-filter has several of one label.
type filtered struct{ label, filter string }

// newStatistics returns an output that prints its report to out, as text or as one JSON object.
func newStatistics(out io.Writer, asJSON bool) *statistics {
	return &statistics{
		out: out, json: asJSON, tallyOf: make(map[filtered]*interfaceTally), atTC: make(map[string]*readTally), reasons: make(map[cause]*readTally), flows: make(map[meter.Flow]*readTally),
	}
}

// Section takes the comments of a section of a file, which may say how packets were sampled.
func (s *statistics) Section(comments []string) {
	s.drawn.section(comments)
	if s.page != nil {
		s.page.section(comments)
	}
}

// Begin keeps the names of reasons. Sources are looked at with their packets.
func (s *statistics) Begin(d capture.Description) error {
	s.causeNames = d.CauseNames
	if s.page != nil {
		s.page.begin(s.Input, d)
	}
	return nil
}

// Write counts packets.
func (s *statistics) Write(packets []capture.Packet) error {
	s.look()
	for i := range packets {
		s.packet(&packets[i])
	}
	if s.page != nil && s.page.delays != nil {
		s.page.delays.add(packets)
	}
	return nil
}

// Flush does nothing: the report comes at the end.
func (s *statistics) Flush() error { return nil }

// look adds the sources that have come since the last call.
func (s *statistics) look() {
	for _, source := range s.Input.SourcesFrom(len(s.sources)) {
		label := message.Escape(lines.Label(&source))
		t, ok := s.tallyOf[filtered{label, source.Filter}]
		if !ok {
			t = &interfaceTally{source: source, label: label}
			s.tallyOf[filtered{label, source.Filter}] = t
			s.interfaces = append(s.interfaces, t)
		}
		s.sources = append(s.sources, source)
		s.tallies = append(s.tallies, t)
	}
}

func (s *statistics) packet(p *capture.Packet) {
	length, weight, source := max(p.WireLen, uint32(len(p.Data))), max(p.Weight, 1), &s.sources[p.Source]
	s.drawn.packet(p, length, weight)
	s.total.add(length, weight)
	of := s.tallies[p.Source]
	of.add(length, weight)
	if p.Dropped > 0 {
		of.gaps++
		of.lost += p.Dropped
	}
	switch verdict, kind, known := source.ReturnOf(p); {
	case known && kind == capture.XDPVerdict:
		v := verdict.Slot()
		s.verdicts[v].add(length, weight)
		s.drawn.verdict(v, weight)
	case known && kind == capture.TCVerdict:
		tallyOf(s.atTC, tcVerdictName(verdict)).add(length, weight)
	}
	reason := s.reason(p, length, weight)
	if s.page != nil {
		s.page.add(source, p, reason, length, weight)
	}
	if p.HasTime() {
		if !s.timed {
			s.from, s.to, s.timed = p.Time, p.Time, true
		}
		s.from, s.to = min(s.from, p.Time), max(s.to, p.Time)
	}
	flow, ok := meter.FlowOf(headers.LinkToDecode(source.LinkType()), p.Data)
	if !ok {
		return
	}
	t := s.flows[flow]
	switch {
	case t != nil:
	case len(s.flows) == maxReadFlows:
		t = &s.overflow
	default:
		t = new(readTally)
		s.flows[flow] = t
	}
	t.add(length, weight)
}

// End prints the report, and writes its page.
func (s *statistics) End(final capture.Accounts) (capture.Accounts, error) {
	s.look()
	for i, t := range s.tallies {
		if of, ok := s.Input.Statistics(i); ok {
			t.statistics = append(t.statistics, of)
		}
	}
	r := s.report()
	if s.page != nil {
		if err := s.page.write(s, r); err != nil {
			return final, err
		}
	}
	if s.out == nil {
		return final, nil
	}
	return final, printReport(s.out, r, s.json)
}

// rate is a tally over the time of all packets. If that time is 0, it has no rates.
func (s *statistics) rate(t readTally) readRate {
	r := readRate{Rate: meter.Rate{Packets: t.packets, Bytes: t.bytes}, Estimate: s.drawn.estimate(&t)}
	if seconds := time.Duration(s.to - s.from).Seconds(); seconds > 0 {
		r.PacketsPerSecond, r.BitsPerSecond = float64(t.packets)/seconds, float64(t.bytes)*8/seconds
	}
	return r
}

func (s *statistics) report() *Report {
	r := &Report{Total: s.rate(s.total), NotEstimated: s.drawn.notEstimated(), Interfaces: []interfaceRate{}, Flows: []readFlowRate{}}
	if s.timed {
		from, to := time.Unix(0, s.from).UTC(), time.Unix(0, s.to).UTC()
		r.From, r.To, r.Duration = &from, &to, time.Duration(s.to-s.from).Seconds()
	}
	filters := make(map[string]int) // by label: how many there are
	for of := range s.tallyOf {
		filters[of.label]++
	}
	for _, i := range s.interfaces {
		one := interfaceRate{
			Interface: cmp.Or(i.source.Name, i.label), Hook: hookKey(&i.source), Program: i.source.Target.Name,
			readRate: s.rate(i.readTally), Gaps: i.gaps, LostInGaps: i.lost, Account: newFileAccount(i.statistics), label: i.label,
		}
		if filters[i.label] > 1 {
			one.Filter = i.source.Filter
			one.label += ": " + cmp.Or(message.Escape(one.Filter), "every packet")
		}
		r.Interfaces = append(r.Interfaces, one)
	}
	for v, t := range s.verdicts {
		if t.packets == 0 {
			continue
		}
		name := "unknown"
		if v < len(s.verdicts)-1 {
			name = capture.Verdict(v).String()
		}
		if r.Verdicts == nil {
			r.Verdicts = make(map[string]readRate)
		}
		of := s.rate(t)
		of.Estimate = s.drawn.estimateVerdict(v, &t)
		r.Verdicts[name] = of
	}
	for name, t := range s.atTC {
		if r.Verdicts == nil {
			r.Verdicts = make(map[string]readRate)
		}
		r.Verdicts[name] = s.rate(*t)
	}
	r.Reasons = s.reasonRates()
	for _, flow := range s.topFlows() {
		r.Flows = append(r.Flows, readFlowRate{newFlowKeys(flow), s.rate(*s.flows[flow])})
	}
	if s.overflow.packets > 0 {
		o := s.rate(s.overflow)
		r.Overflow = &o
	}
	return r
}

// hookKey names the hook that a file names; "" = none.
func hookKey(s *capture.Source) string {
	if s.Hook == capture.UnknownHook {
		return ""
	}
	return s.Hook.String()
}

// topFlows are the flows with most bytes, by the estimate of what there was before sampling.
func (s *statistics) topFlows() []meter.Flow {
	flows := make([]meter.Flow, 0, len(s.flows))
	for f := range s.flows {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(a, b meter.Flow) int {
		return cmp.Or(
			cmp.Compare(s.flows[b].bytesBefore.Estimate(), s.flows[a].bytesBefore.Estimate()),
			a.Source.Compare(b.Source), a.Destination.Compare(b.Destination), cmp.Compare(a.Class, b.Class),
		)
	})
	return flows[:min(len(flows), topReadFlows)]
}
