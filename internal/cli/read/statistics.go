package read

import (
	"cmp"
	"io"
	"maps"
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
	maxReadFlows = 1 << 17 // flows that are counted one by one
	topReadFlows = 10      // flows in the report
)

// statistics is an output that makes the report of read --stats, and the page of --report.
type statistics struct {
	out   io.Writer   // nil = the report is not printed, only the page is made
	json  bool        // print it as an object
	page  *pageWriter // nil without --report
	Input *file.Input // set before the first packet

	causeNames func(source uint16, f *capture.Facts) (reason, location string)

	sources []capture.Source
	tallies []*interfaceTally // by source

	total       readTally
	interfaces  []*interfaceTally // in the order of the files
	byInterface map[filtered]*interfaceTally
	verdicts    [xdp.VerdictSlots]readTally
	tcVerdicts  map[string]*readTally // by the names of verdicts at tc
	reasons     map[cause]*readTally  // of packets that were thrown away
	flows       map[meter.Flow]*readTally
	overflow    readTally // packets of flows beyond maxReadFlows
	from, to    int64     // the earliest and the latest time of a packet, in ns since the epoch
	timed       bool      // from and to are known: a packet had a time
	sampling    sampling
}

// readTally counts packets and their bytes, and estimates both before sampling.
type readTally struct {
	packets, bytes             uint64
	packetsBefore, bytesBefore estimate.Sum
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
	label      string                     // printable
	gaps, lost uint64                     // positions where packets are missing, and these packets
	statistics []file.InterfaceStatistics // of the interfaces in files
}

// filtered is a label with a filter: with --reload-filter an interface has several.
type filtered struct{ label, filter string }

// newStatistics returns an output that prints its report to out, as text or as one JSON object.
func newStatistics(out io.Writer, asJSON bool) *statistics {
	return &statistics{
		out: out, json: asJSON,
		byInterface: make(map[filtered]*interfaceTally), tcVerdicts: make(map[string]*readTally),
		reasons: make(map[cause]*readTally), flows: make(map[meter.Flow]*readTally),
	}
}

// addSection adds the comments of a section of a file, which may describe the sampling of packets.
func (s *statistics) addSection(comments []string) {
	s.sampling.addSection(comments)
	if s.page != nil {
		s.page.addSection(comments)
	}
}

// Begin implements capture.Output. Sources are added with their packets.
func (s *statistics) Begin(d capture.Description) error {
	s.causeNames = d.CauseNames
	if s.page != nil {
		s.page.begin(s.Input, d)
	}
	return nil
}

// Write implements capture.Output.
func (s *statistics) Write(packets []capture.Packet) error {
	s.addSources()
	for i := range packets {
		s.add(&packets[i])
	}
	if s.page != nil && s.page.delays != nil {
		s.page.delays.add(packets)
	}
	return nil
}

// Flush does nothing: the report comes at the end.
func (s *statistics) Flush() error { return nil }

// addSources adds the sources that have come since the last call.
func (s *statistics) addSources() {
	for _, source := range s.Input.SourcesFrom(len(s.sources)) {
		label := message.Escape(lines.Label(&source))
		key := filtered{label, source.Filter}
		t, ok := s.byInterface[key]
		if !ok {
			t = &interfaceTally{source: source, label: label}
			s.byInterface[key] = t
			s.interfaces = append(s.interfaces, t)
		}
		s.sources = append(s.sources, source)
		s.tallies = append(s.tallies, t)
	}
}

// add counts a packet in all tallies that it belongs to.
func (s *statistics) add(p *capture.Packet) {
	length, weight := max(p.WireLen, uint32(len(p.Data))), max(p.Weight, 1) // Weight 0 = unknown
	source := &s.sources[p.Source]
	s.sampling.addPacket(p, length, weight)
	s.total.add(length, weight)
	ofInterface := s.tallies[p.Source]
	ofInterface.add(length, weight)
	if p.Dropped > 0 {
		ofInterface.gaps++
		ofInterface.lost += p.Dropped
	}
	switch verdict, kind, known := source.ReturnOf(p); {
	case known && kind == capture.XDPVerdict:
		slot := verdict.Slot()
		s.verdicts[slot].add(length, weight)
		s.sampling.addVerdict(slot, weight)
	case known && kind == capture.TCVerdict:
		tallyOf(s.tcVerdicts, tcVerdictName(verdict)).add(length, weight)
	}
	reason := s.addReason(p, length, weight)
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
	s.addSources()
	for i, t := range s.tallies {
		if inFile, ok := s.Input.Statistics(i); ok {
			t.statistics = append(t.statistics, inFile)
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

// rate is a tally with its rates over the time of all packets. If that time is 0, the rates are 0.
func (s *statistics) rate(t readTally) readRate {
	r := readRate{Rate: meter.Rate{Packets: t.packets, Bytes: t.bytes}, Estimate: s.sampling.estimate(&t)}
	if seconds := time.Duration(s.to - s.from).Seconds(); seconds > 0 {
		r.PacketsPerSecond, r.BitsPerSecond = float64(t.packets)/seconds, float64(t.bytes)*8/seconds
	}
	return r
}

func (s *statistics) report() *Report {
	r := &Report{Total: s.rate(s.total), NotEstimated: s.sampling.notEstimated(), Interfaces: []interfaceRate{}, Flows: []readFlowRate{}}
	if s.timed {
		from, to := time.Unix(0, s.from).UTC(), time.Unix(0, s.to).UTC()
		r.From, r.To, r.Duration = &from, &to, time.Duration(s.to-s.from).Seconds()
	}
	filters := make(map[string]int) // the number of filters, by label
	for key := range s.byInterface {
		filters[key.label]++
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
	r.Verdicts = s.verdictRates()
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

// verdictRates are the rates by the names of verdicts. It is nil if no packet has one.
func (s *statistics) verdictRates() map[string]readRate {
	rates := make(map[string]readRate)
	for slot, t := range s.verdicts {
		if t.packets > 0 {
			rate := s.rate(t)
			rate.Estimate = s.sampling.estimateVerdict(slot, &t)
			rates[xdp.Verdict(slot).SlotName()] = rate
		}
	}
	for name, t := range s.tcVerdicts {
		rates[name] = s.rate(*t)
	}
	if len(rates) == 0 {
		return nil
	}
	return rates
}

// hookKey is the name of a source's hook; "" = the file has none.
func hookKey(s *capture.Source) string {
	if s.Hook == capture.UnknownHook {
		return ""
	}
	return s.Hook.String()
}

// topFlows are the flows with most bytes, by the estimate of the bytes before sampling.
func (s *statistics) topFlows() []meter.Flow {
	flows := slices.SortedFunc(maps.Keys(s.flows), func(a, b meter.Flow) int {
		return cmp.Or(
			cmp.Compare(s.flows[b].bytesBefore.Estimate(), s.flows[a].bytesBefore.Estimate()),
			a.Source.Compare(b.Source), a.Destination.Compare(b.Destination), cmp.Compare(a.Class, b.Class),
		)
	})
	return flows[:min(len(flows), topReadFlows)]
}
