package read

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Report is printed by read --stats. Bytes are those of whole packets, also of cut ones.
type Report struct {
	From       *time.Time          `json:"from"` // of the first packet; null = there is none
	To         *time.Time          `json:"to"`
	Duration   float64             `json:"duration_s"` // the time of the rates, in seconds
	Total      readRate            `json:"total"`
	Interfaces []interfaceRate     `json:"interfaces"`
	Verdicts   map[string]readRate `json:"verdicts,omitempty"`
	Reasons    []reasonRate        `json:"reasons,omitempty"` // of packets that were thrown away
	Flows      []readFlowRate      `json:"flows"`             // the largest
	Overflow   *readRate           `json:"flow_overflow,omitempty"`

	// NotEstimated describes in words the packets that the estimates do not include.
	NotEstimated []string `json:"not_estimated,omitempty"`
}

type interfaceRate struct {
	Interface string `json:"interface"`
	Hook      string `json:"hook,omitempty"`
	Program   string `json:"program,omitempty"`
	Filter    string `json:"filter,omitempty"` // only if the interface has several
	readRate
	Gaps       uint64       `json:"gaps"` // number of positions where packets are missing
	LostInGaps uint64       `json:"lost_in_gaps"`
	Account    *fileAccount `json:"account,omitempty"` // from the file's statistics
	label      string
}

type readFlowRate struct {
	FlowKeys
	readRate
}

// A fileAccount is the account of an interface in files. A number that the files lack is nil.
type fileAccount struct {
	Seen        *uint64 `json:"seen,omitempty"`
	FilteredOut *uint64 `json:"filtered_out,omitempty"`
	NotSampled  *uint64 `json:"not_sampled,omitempty"` // including invalid ones, which files do not count separately
	Lost        *uint64 `json:"lost,omitempty"`
	NotTaken    *uint64 `json:"not_taken,omitempty"`
	Captured    *uint64 `json:"captured,omitempty"`
	PassedBy    uint64  `json:"passed_by,omitempty"` // at least, and in no other number
}

// newFileAccount adds up the statistics of several files. It is nil if there are none.
func newFileAccount(all []file.InterfaceStatistics) *fileAccount {
	if len(all) == 0 {
		return nil
	}
	sum := func(of func(*file.InterfaceStatistics) *uint64) *uint64 {
		total := uint64(0)
		for i := range all {
			n := of(&all[i])
			if n == nil {
				return nil
			}
			total += *n
		}
		return &total
	}
	matched := sum(func(s *file.InterfaceStatistics) *uint64 { return s.Matched })
	dropped := sum(func(s *file.InterfaceStatistics) *uint64 { return s.Dropped })
	a := &fileAccount{
		Seen:     sum(func(s *file.InterfaceStatistics) *uint64 { return s.Seen }),
		Lost:     sum(func(s *file.InterfaceStatistics) *uint64 { return s.Lost }),
		Captured: sum(func(s *file.InterfaceStatistics) *uint64 { return s.Captured }),
	}
	a.FilteredOut, a.NotTaken = difference(a.Seen, matched), difference(a.Lost, dropped)
	a.NotSampled = difference(difference(matched, a.Lost), a.Captured)
	for i := range all {
		a.PassedBy += all[i].PassedBy
	}
	return a
}

// difference is a - b. It is nil if one of them is unknown, or if a is less than b: a file of
// another program may count something else.
func difference(a, b *uint64) *uint64 {
	if a == nil || b == nil || *a < *b {
		return nil
	}
	d := *a - *b
	return &d
}

// String is the equation of the account, or a list of the numbers if the file lacks some.
func (a *fileAccount) String() string {
	all := []struct {
		value *uint64
		name  string
	}{{a.Seen, "seen"}, {a.FilteredOut, "filtered out"}, {a.NotSampled, "not sampled"}, {a.Lost, "lost"}, {a.Captured, "captured"}}
	var known []string
	for _, n := range all {
		if n.value != nil {
			known = append(known, fmt.Sprintf("%d %s", *n.value, n.name))
		}
	}
	if len(known) == len(all) {
		return known[0] + " = " + strings.Join(known[1:], " + ")
	}
	return strings.Join(known, ", ")
}

// printReport prints a report as a table, or as JSON.
func printReport(out io.Writer, report interface{ WriteTable(io.Writer) }, asJSON bool) error {
	var text bytes.Buffer
	if asJSON {
		if err := message.NewJSONEncoder(&text).Encode(report); err != nil {
			return err
		}
	} else {
		report.WriteTable(&text)
	}
	_, err := out.Write(text.Bytes())
	return frame.ExplainPrint(err)
}

// WriteTable prints the report as tables.
func (r *Report) WriteTable(w io.Writer) {
	if r.From != nil {
		const stamp = "2006-01-02 15:04:05.000000"
		fmt.Fprintf(w, "%s to %s, %.6f s\n", r.From.Local().Format(stamp), r.To.Local().Format(stamp), r.Duration)
	}
	t := &frame.Table{}
	t.Add(append(counters.RateTitles("INTERFACE"), "GAPS", "LOST IN THEM")...)
	var gaps, lost uint64
	for _, i := range r.Interfaces {
		t.Add(append(counters.RateCells(i.Rate, frame.ShortenMiddle(i.label, 34)), strconv.FormatUint(i.Gaps, 10), strconv.FormatUint(i.LostInGaps, 10))...)
		gaps, lost = gaps+i.Gaps, lost+i.LostInGaps
	}
	t.Add(append(counters.RateCells(r.Total.Rate, "total"), strconv.FormatUint(gaps, 10), strconv.FormatUint(lost, 10))...)
	t.Write(w)
	r.verdictTable(w)
	r.reasonTable(w)
	r.estimateTable(w)
	r.flowTable(w)
	for _, i := range r.Interfaces {
		if i.Account != nil && i.Account.String() != "" {
			fmt.Fprintf(w, "%s: %v\n", i.label, i.Account)
		}
	}
}

// verdictOrder is the order of verdicts in tables.
var verdictOrder = append([]string{"aborted", "drop", "pass", "tx", "redirect", "unknown"}, tcVerdictOrder()...)

// tcWord begins the names of verdicts at tc, because some of XDP have the same.
const tcWord = "tc "

func tcVerdictOrder() (names []string) {
	for _, name := range capture.TCVerdictNames() {
		names = append(names, tcWord+name)
	}
	return append(names, tcWord+"unknown")
}

// tcVerdictName is the name of a verdict at tc in tables.
func tcVerdictName(v capture.Verdict) string {
	name := capture.TCVerdict.NameOf(v)
	if !slices.Contains(capture.TCVerdictNames(), name) {
		name = "unknown"
	}
	return tcWord + name
}

func (r *Report) verdictTable(w io.Writer) {
	if r.Verdicts == nil {
		return
	}
	t := counters.NewRateTable("VERDICT")
	for _, name := range verdictOrder {
		if v, ok := r.Verdicts[name]; ok {
			t.Add(counters.RateCells(v.Rate, name)...)
		}
	}
	t.Write(w)
}

func (r *Report) flowTable(w io.Writer) {
	if len(r.Flows) == 0 {
		return
	}
	t := &frame.Table{Left: 2}
	if r.Total.Estimate != nil {
		r.estimateFlows(t)
	} else {
		t.Add("FLOW", "FROM", "TO", "BYTES", "BIT/S")
		for _, f := range r.Flows {
			from, to := f.ends(endWidth)
			t.Add(f.Protocol, from, to, frame.Scaled(float64(f.Bytes)), frame.Scaled(f.BitsPerSecond))
		}
	}
	t.Write(w)
	if o := r.Overflow; o != nil {
		fmt.Fprintf(w, "%d packets, %d bytes of flows after the first %d, which are not listed one by one\n", o.Packets, o.Bytes, maxReadFlows)
	}
}

// FlowKeys are the keys of a flow: one direction of a conversation, as in count --flows. If there
// is no flow, all are missing.
type FlowKeys struct {
	Family          string `json:"family,omitempty"`
	Protocol        string `json:"protocol,omitempty"`
	Source          string `json:"source,omitempty"`
	SourcePort      uint16 `json:"source_port,omitempty"` // 0 = none
	Destination     string `json:"destination,omitempty"`
	DestinationPort uint16 `json:"destination_port,omitempty"`
}

func newFlowKeys(f meter.Flow) FlowKeys { return FlowKeys(counters.NewFlow(f)) }

// endWidth is the most columns of an address with its port in a line.
const endWidth = 34

// ends are the addresses of a flow with their ports, in at most this many columns each.
func (f *FlowKeys) ends(columns int) (from, to string) {
	return frame.Endpoint(f.Source, f.SourcePort, columns), frame.Endpoint(f.Destination, f.DestinationPort, columns)
}
