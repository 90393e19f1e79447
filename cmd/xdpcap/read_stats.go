package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/estimate"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	maxReadFlows = 1 << 17 // flows that are counted one by one, as many as --first and count know
	topReadFlows = 10
)

// readStats counts what is read.
type readStats struct {
	stdoutLines
	json   bool
	labels readLabels

	total      readTally
	interfaces []*interfaceTally // in the order of the files
	byLabel    map[string]*interfaceTally
	verdicts   [capture.Redirect + 2]readTally // the last one is of unknown verdicts
	flows      map[meter.Flow]*readTally
	overflow   readTally // of flows that had no room
	other      map[uint16]uint64
	from, to   int64 // times of the first and the last packet, in ns since the epoch
	timed      bool
	drawn      readDraw
}

// readTally is packets and the bytes that they had, and what can be told from their weights.
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

// interfaceTally is what is counted of an interface, in all files in which it has this label.
type interfaceTally struct {
	readTally
	label      readLabel
	gaps, lost uint64
	statistics map[*capfile.Interface]*interfaceStatistics
}

// interfaceStatistics are what a file says of an interface at last.
type interfaceStatistics struct {
	pcapng.Statistics
	known pcapng.Counters
}

func newReadStats(out *stdoutLines, asJSON bool) *readStats {
	return &readStats{
		stdoutLines: *out, json: asJSON,
		byLabel: make(map[string]*interfaceTally), flows: make(map[meter.Flow]*readTally), other: make(map[uint16]uint64),
	}
}

func (s *readStats) take(b *capfile.Block) error {
	switch b.Kind {
	case capfile.Section:
		s.drawn.section(b)
	case capfile.Described:
		s.labels.add(b.Interface)
		s.interfaceOf(b.Interface)
	case capfile.Statistics:
		if b.Interface != nil {
			s.interfaceOf(b.Interface).statistics[b.Interface] = &interfaceStatistics{b.Statistics, b.Known}
		}
	case capfile.Packet:
		s.packet(b)
	}
	return nil
}

func (s *readStats) interfaceOf(i *capfile.Interface) *interfaceTally {
	label := s.labels.of(i)
	t, ok := s.byLabel[label.text]
	if !ok {
		t = &interfaceTally{label: label, statistics: make(map[*capfile.Interface]*interfaceStatistics)}
		s.byLabel[label.text] = t
		s.interfaces = append(s.interfaces, t)
	}
	return t
}

func (s *readStats) packet(b *capfile.Block) {
	p := &b.Packet
	length := max(p.WireLen, uint32(len(p.Data)))
	weight := max(p.Weight, 1)
	s.drawn.packet(b, length, weight)
	s.total.add(length, weight)
	of := s.interfaceOf(b.Interface)
	of.add(length, weight)
	if p.Dropped > 0 {
		of.gaps++
		of.lost += p.Dropped
	}
	if p.Fields&pcapng.HasVerdict != 0 {
		s.verdicts[min(int(p.Verdict), len(s.verdicts)-1)].add(length, weight)
	}
	if !b.Untimed {
		if !s.timed {
			s.from, s.to, s.timed = b.Time, b.Time, true
		}
		s.from, s.to = min(s.from, b.Time), max(s.to, b.Time)
	}
	if !isEthernet(b.Interface) {
		s.other[b.Interface.LinkType]++
		return
	}
	flow, ok := frameFlow(p.Data)
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

// flush does nothing: the report comes at the end.
func (s *readStats) flush() error { return nil }
func (s *readStats) abort()       {}

func (s *readStats) notices() []string { return notDecoded(s.other) }

func (s *readStats) end() error {
	r := s.report()
	out := lineBuffer{&s.lines}
	if s.json {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	} else {
		r.writeTable(out)
	}
	return s.stdoutLines.flush()
}

// rate is a tally over the time of all packets. Where that is no time at all, it has no rates.
func (s *readStats) rate(t readTally) readRate {
	r := readRate{rate: rate{Packets: t.packets, Bytes: t.bytes}, Estimate: s.drawn.estimate(&t)}
	if seconds := time.Duration(s.to - s.from).Seconds(); seconds > 0 {
		r.PPS, r.BPS = float64(t.packets)/seconds, float64(t.bytes)*8/seconds
	}
	return r
}

func (s *readStats) report() *readReport {
	r := &readReport{Total: s.rate(s.total), NotEstimated: s.drawn.notEstimated(), Interfaces: []interfaceRate{}, Flows: []readFlowRate{}}
	if s.timed {
		from, to := time.Unix(0, s.from).UTC(), time.Unix(0, s.to).UTC()
		r.From, r.To, r.Duration = &from, &to, time.Duration(s.to-s.from).Seconds()
	}
	for _, i := range s.interfaces {
		r.Interfaces = append(r.Interfaces, interfaceRate{
			Interface: cmp.Or(i.label.name, i.label.text), Hook: i.label.hook, Program: i.label.program,
			readRate: s.rate(i.readTally), Gaps: i.gaps, LostInGaps: i.lost, Account: newFileAccount(i.statistics), label: i.label.text,
		})
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
	for _, flow := range s.topFlows() {
		r.Flows = append(r.Flows, readFlowRate{newFlowKeys(flow), s.rate(*s.flows[flow])})
	}
	if s.overflow.packets > 0 {
		o := s.rate(s.overflow)
		r.Overflow = &o
	}
	return r
}

// topFlows are the flows with most bytes, as many as are expected before packets were drawn.
func (s *readStats) topFlows() []meter.Flow {
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
