package counters

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

type statsInterval = meter.Interval[meter.ActionCounts]

// StatsReport is printed by stats: as a table, or with --json as this object.
type StatsReport struct {
	IntervalKeys
	Interface string `json:"interface"`
	VerdictRates
	Reasons []reasonRate `json:"reasons,omitempty"` // with --by reason
	Queues  []queueRates `json:"queues,omitempty"`  // with --per-queue
	CPUs    []cpuRates   `json:"cpus,omitempty"`    // with --per-cpu
}

// VerdictRates are the rates of each verdict, and of all together.
type VerdictRates struct {
	Verdicts map[string]meter.Rate `json:"verdicts"` // by name
	Total    meter.Rate            `json:"total"`
}

// A reasonRate has the packets that were dropped for a reason that the program has given.
type reasonRate struct {
	Reason  string `json:"reason"` // noReason = it has given none
	Verdict string `json:"verdict"`
	meter.Rate
}

// noReason stands for packets for which the program gave no reason.
const noReason = "none"

type queueRates struct {
	Queue string `json:"queue"`
	VerdictRates
}

type cpuRates struct {
	CPU int `json:"cpu"`
	VerdictRates
}

func newStatsReport(o *StatsOptions, iface string, i statsInterval) *StatsReport {
	r := &StatsReport{IntervalKeys: newIntervalKeys(i), Interface: iface}
	r.VerdictRates = newVerdictRates(i.Before.Total(), i.Now.Total(), i.Took)
	for _, key := range sortedReasons(i.Now.Reasons) {
		rate := meter.NewRate(i.Before.Reasons[key], i.Now.Reasons[key], i.Took)
		r.Reasons = append(r.Reasons, reasonRate{reasonName(key), key.Verdict.SlotName(), rate})
	}
	if o.perQueue {
		for q := range i.Now.Queues {
			v := newVerdictRates(i.Before.Queue(q), i.Now.Queue(q), i.Took)
			// The last one counts queues beyond those that the driver named, and is mostly empty.
			if q < len(i.Now.Queues)-1 || v.Total.Packets > 0 {
				r.Queues = append(r.Queues, queueRates{queueName(i.Now, q), v})
			}
		}
	}
	if o.perCPU {
		for cpu := range i.Now.CPUs() {
			v := newVerdictRates(i.Before.CPU(cpu), i.Now.CPU(cpu), i.Took)
			r.CPUs = append(r.CPUs, cpuRates{cpu, v})
		}
	}
	return r
}

// sortedReasons are the reasons, ordered by packets.
func sortedReasons(counted map[meter.VerdictReason]meter.Tally) []meter.VerdictReason {
	return slices.SortedFunc(maps.Keys(counted), func(a, b meter.VerdictReason) int {
		return cmp.Or(cmp.Compare(counted[b].Packets, counted[a].Packets), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Verdict, b.Verdict))
	})
}

func reasonName(r meter.VerdictReason) string { return cmp.Or(r.Reason, noReason) }

func newVerdictRates(before, now meter.VerdictTallies, took time.Duration) VerdictRates {
	v := VerdictRates{
		Verdicts: make(map[string]meter.Rate),
		Total:    meter.NewRate(before.Sum(), now.Sum(), took),
	}
	for slot := range now { // one for each verdict: see xdp.Verdict.Slot
		v.Verdicts[verdictName(slot)] = meter.NewRate(before[slot], now[slot], took)
	}
	return v
}

func queueName(c meter.ActionCounts, queue int) string {
	if queue == len(c.Queues)-1 {
		return "other"
	}
	return strconv.Itoa(queue)
}

// WriteTable prints the report as tables.
func (r *StatsReport) WriteTable(w io.Writer) {
	t := NewRateTable("VERDICT")
	for slot := range (meter.VerdictTallies{}) {
		r.addVerdict(t, slot)
	}
	t.Add(RateCells(r.Total, "total")...)
	t.Write(w)
	if r.Reasons != nil {
		t := NewRateTable("REASON", "VERDICT")
		for _, reason := range r.Reasons {
			// Every reason has a row. It is red if there are packets: only lost ones have a reason.
			t.AddLost(reason.Packets > 0, RateCells(reason.Rate, reason.Reason, reason.Verdict)...)
		}
		t.Write(w)
	}
	if r.Queues != nil {
		t := NewRateTable("QUEUE", "VERDICT")
		for _, q := range r.Queues {
			q.addVerdicts(t, q.Queue)
		}
		t.Write(w)
	}
	if r.CPUs != nil {
		t := NewRateTable("CPU", "VERDICT")
		for _, c := range r.CPUs {
			c.addVerdicts(t, strconv.Itoa(c.CPU))
		}
		t.Write(w)
	}
}

// addVerdicts adds a row for each verdict that occurred, after the name of the queue or CPU.
func (v VerdictRates) addVerdicts(t *frame.Table, name string) {
	for slot := range (meter.VerdictTallies{}) {
		if v.Verdicts[verdictName(slot)].Packets > 0 {
			v.addVerdict(t, slot, name)
		}
	}
}

// addVerdict adds the row of a verdict, after these names. The row is red if packets were lost.
func (v VerdictRates) addVerdict(t *frame.Table, slot int, names ...string) {
	rate := v.Verdicts[verdictName(slot)]
	t.AddLost(rate.Packets > 0 && xdp.Loses(xdp.Verdict(slot)), RateCells(rate, append(names, verdictName(slot))...)...)
}
