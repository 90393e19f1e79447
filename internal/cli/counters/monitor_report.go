package counters

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type monitorInterval = meter.Interval[meter.EventCounts]

// MonitorReport is printed by monitor: as a table, or with --json as this object.
type MonitorReport struct {
	IntervalKeys
	Interface string       `json:"interface,omitempty"`
	Program   uint32       `json:"program,omitempty"` // id
	Events    []eventRates `json:"events"`            // the cases that occurred
	Missed    uint64       `json:"missed"`            // events of cases for which the table had no room
	Forgotten uint64       `json:"forgotten"`         // events of cases that were evicted from the table

	all []meter.Event // that can occur on this kernel
}

// eventRates are the counters of one case.
type eventRates struct {
	EventCase
	CPU              *int `json:"cpu,omitempty"` // with --per-cpu; the object without this key is the sum
	meter.EventCount      // cumulative

	// How fast the fields of EventCount rose in the interval. LostPerSecond is that of Drops, which
	// are lost packets; Passed, Dropped and Redirected are verdicts of a cpumap entry's program.
	EventsPerSecond     float64 `json:"events_per_s"`
	PacketsPerSecond    float64 `json:"packets_per_s"`
	LostPerSecond       float64 `json:"drops_per_s"`
	SchedPerSecond      float64 `json:"-"`
	PassedPerSecond     float64 `json:"-"`
	DroppedPerSecond    float64 `json:"-"`
	RedirectedPerSecond float64 `json:"-"`

	// PacketsPerEvent is the mean number of packets per event of the interval, lost ones included.
	// It is 0 where the interval had no event.
	PacketsPerEvent float64 `json:"-"`

	event meter.Event
}

func newMonitorReport(m *monitor, i monitorInterval) *MonitorReport {
	return &MonitorReport{
		IntervalKeys: newIntervalKeys(i),
		Interface:    m.iface,
		Program:      m.Program().ID,
		Events:       allRates(i, m.o.perCPU),
		Missed:       i.Now.Missed,
		Forgotten:    i.Now.Forgotten(),
		all:          m.Events(),
	}
}

// allRates returns the rates of all cases since the counters were opened, in the order of
// compareCases. With perCPU, a case has a row for each CPU that had events, and then the row of the
// sum. The list is never nil, which JSON would show as null.
func allRates(i monitorInterval, perCPU bool) []eventRates {
	rates := []eventRates{}
	for _, c := range slices.SortedFunc(maps.Keys(i.Now.Cases), compareCases) {
		before, now := i.Before.Cases[c], i.Now.Cases[c]
		for cpu, count := range now {
			if !perCPU || count.Events == 0 {
				continue
			}
			var was meter.EventCount
			if cpu < len(before) {
				was = before[cpu]
			}
			rates = append(rates, newEventRates(i, c, &cpu, was, count))
		}
		rates = append(rates, newEventRates(i, c, nil, meter.SumEvents(before), meter.SumEvents(now)))
	}
	return rates
}

func newEventRates(i monitorInterval, c meter.Case, cpu *int, before, now meter.EventCount) eventRates {
	perSecond := func(before, now uint64) float64 { return meter.PerSecond(before, now, i.Took) }
	r := eventRates{
		EventCase:           newEventCase(c),
		CPU:                 cpu,
		EventCount:          now,
		EventsPerSecond:     perSecond(before.Events, now.Events),
		PacketsPerSecond:    perSecond(before.Packets, now.Packets),
		LostPerSecond:       perSecond(before.Drops, now.Drops),
		SchedPerSecond:      perSecond(before.Sched, now.Sched),
		PassedPerSecond:     perSecond(before.Passed, now.Passed),
		DroppedPerSecond:    perSecond(before.Dropped, now.Dropped),
		RedirectedPerSecond: perSecond(before.Redirected, now.Redirected),
		event:               c.Event,
	}
	if events := now.Events - before.Events; events > 0 {
		r.PacketsPerEvent = float64(now.Packets-before.Packets+now.Drops-before.Drops) / float64(events)
	}
	return r
}

func compareCases(a, b meter.Case) int {
	return cmp.Or(
		cmp.Compare(a.Event, b.Event),
		cmp.Compare(a.MapID, b.MapID),
		cmp.Compare(a.ToCPU, b.ToCPU),
		cmp.Compare(a.From, b.From),
		cmp.Compare(a.To, b.To),
		cmp.Compare(a.Errno, b.Errno),
		cmp.Compare(a.Verdict, b.Verdict),
		cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.Message, b.Message),
	)
}

// The format of a line, and the columns of its last cell.
const (
	monitorLine  = "%-15s %-9s %12s %12s  %s"
	extraColumns = frame.MaxColumns - 15 - 1 - 9 - 1 - 12 - 1 - 12 - 2
)

// WriteTable writes a line for each case that occurred, and names the events that did not.
func (r *MonitorReport) WriteTable(w io.Writer) {
	print := func(cells ...any) {
		fmt.Fprintln(w, strings.TrimRight(frame.Shorten(fmt.Sprintf(monitorLine, cells...), frame.MaxColumns), " "))
	}
	print("XDP-event", "CPU:to", "pps", "drop-pps", "extra-info")
	var none []string
	for _, event := range r.all {
		idle := true
		for _, e := range r.Events {
			if e.event == event {
				idle = false
				print(eventNames[event].table, e.where(), e.pps(), plain(e.LostPerSecond), e.extra())
				if v := e.verdicts(); v != "" {
					print("", "", "", "", v)
				}
			}
		}
		if idle {
			none = append(none, strings.TrimSpace(eventNames[event].table+" "+idleWords[event]))
		}
	}
	if len(none) > 0 {
		for _, line := range wrap("none yet:", separated(none), 80, len("none yet: ")) {
			fmt.Fprintln(w, line)
		}
	}
	if r.Missed > 0 {
		print("missed", "total", "", "", fmt.Sprintf("[%d] too many kinds of events: use -i", r.Missed))
	}
	if r.Forgotten > 0 {
		print("forgotten", "total", "", "", fmt.Sprintf("[%d] of kinds that made room for others: use -i", r.Forgotten))
	}
}

// idleWords distinguish two events with the same name in the table.
var idleWords = map[meter.Event]string{meter.Redirect: "Success", meter.RedirectErr: "Error"}

// where is the cell of the CPU and, of cpumap_enqueue, the CPU that the packets go to: 3:5.
func (e *eventRates) where() string {
	where := "total"
	if e.CPU != nil {
		where = strconv.Itoa(*e.CPU)
	}
	if e.ToCPU != nil {
		where += ":" + strconv.Itoa(*e.ToCPU)
	}
	return where
}

// pps is the cell for packets per second, or for events without packets the rate of the events.
func (e *eventRates) pps() string {
	switch e.event {
	case meter.MemConnect, meter.MemDisconnect, meter.MemReturnFailed, meter.AttachFailed:
		return plain(e.EventsPerSecond)
	}
	return plain(e.PacketsPerSecond)
}

// extra is the last column: the words of the case, cut if they are too long, then the numbers.
func (e *eventRates) extra() string {
	numbers := fmt.Sprintf("[%d]", e.Events)
	if e.event == meter.CPUMapKthread {
		numbers = "sched/s " + plain(e.SchedPerSecond) + " " + numbers
	}
	switch e.event {
	case meter.DevmapXmit, meter.BulkTx, meter.CPUMapEnqueue, meter.CPUMapKthread:
		if e.EventsPerSecond > 0 {
			numbers = fmt.Sprintf("bulk-avg %.2f ", e.PacketsPerEvent) + numbers
		}
	}
	if words := e.words(e.event); words != "" {
		return frame.Shorten(message.Escape(words), extraColumns-1-len(numbers)) + " " + numbers
	}
	return numbers
}

// verdicts is a second line for a cpumap entry with a program: how often that program returned each
// verdict. It is empty for everything else.
func (e *eventRates) verdicts() string {
	if e.Passed+e.Dropped+e.Redirected == 0 {
		return ""
	}
	return fmt.Sprintf("pass/s %s drop/s %s redirect/s %s",
		plain(e.PassedPerSecond), plain(e.DroppedPerSecond), plain(e.RedirectedPerSecond))
}

// plain formats a rate without a prefix, with one decimal below 10 and none above.
func plain(rate float64) string {
	if rate > 0 && rate < 10 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return strconv.FormatFloat(rate, 'f', 0, 64)
}
